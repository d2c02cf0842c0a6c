//! Prepared transactions: a client becomes one and stays, across restarts, until it is resolved.
//! While it is in doubt its rows, unique values and tables are held as any client's.

use std::sync::Arc;

use resurgam_engine::*;

use super::Found;
use super::client::Client;
use super::schedule::{Fault, World};
use crate::broken;

impl World {
    /// Prepares client `at`.
    pub fn prepare(&mut self, at: usize) -> Found<()> {
        // Now and then an identifier that may be in use.
        self.serial += 1;
        let gid = if self.rng.one_in(3) { format!("gid{}", self.rng.below(4)) } else { format!("gid{}", self.serial) };
        let taken = self.clients.iter().any(|c| c.gid.as_ref().is_some_and(|(other, _)| *other == gid));
        self.log(|| format!("client {at}: prepare {gid} as {:?}", self.clients[at].tx.id()));
        // One that has written nothing gets an id now.
        let id = self.clients[at].tx.id().unwrap_or_default();
        let result = self.clients[at].tx.prepare(&gid, "owner", "database");
        match &result {
            Err(error) if error.kind() == ErrorKind::DuplicateObject => {
                if !taken {
                    broken!("prepare: identifier {gid} is said to be in use: {error}");
                }
                return Ok(()); // it goes on as before
            }
            // Going back to a savepoint failed before, for a read that did.
            Err(error)
                if error.kind() == ErrorKind::InvalidTransactionState
                    && matches!(self.fault, Fault::Read | Fault::Device) =>
            {
                self.clients[at].failed = true;
                self.clients[at].savepoints.clear();
                return Ok(());
            }
            Ok(_) if taken => broken!("prepare: identifier {gid} was given twice"),
            _ => {}
        }
        let mut client = self.clients.swap_remove(at);
        client.bulk = None;
        match result.and_then(CommitTicket::wait) {
            Ok(()) => {
                let Some(listed) = self.db.prepared().into_iter().find(|p| p.gid == gid) else {
                    broken!("prepare: {gid} is not listed");
                };
                if id.is_some() && listed.id != id {
                    broken!("prepare: {gid} was transaction {id}, and is {}", listed.id);
                }
                let id = listed.id;
                self.met.prepared += 1;
                let tx = Arc::new(client.in_doubt(id, &self.taken_back));
                self.model.certain(|state| drop(state.prepared.insert(gid.clone(), tx)));
                client.gid = Some((gid, id));
                self.clients.push(client);
                Ok(())
            }
            Err(error) => {
                if error.kind() != ErrorKind::DiskFull {
                    let tx = client.in_doubt(id, &self.taken_back);
                    self.model.uncertain(|state| drop(state.prepared.insert(gid, Arc::new(tx))));
                    self.met.prepared_uncertain += 1;
                    self.dead = true;
                }
                drop(client);
                self.judge_any(error, "commit by preparing")
            }
        }
    }

    /// Commits or rolls back the prepared client `at`.
    pub fn resolve(&mut self, at: usize) -> Found<()> {
        let Some((gid, id)) = self.clients[at].gid.clone() else { return Ok(()) };
        let commits = self.rng.one_in(2);
        self.log(|| format!("client {at}: {} prepared {gid}, {id}", if commits { "commit" } else { "roll back" }));
        let result = if commits { self.db.commit_prepared(&gid) } else { self.db.rollback_prepared(&gid) };
        let result = result.and_then(CommitTicket::wait);
        let client = &self.clients[at];
        let (own, ddl) = (client.own.clone(), client.changed_definitions);
        let change = |state: &mut super::model::State| {
            state.prepared.remove(&gid);
            if commits {
                *state = own.over(state);
            }
        };
        match result {
            Ok(()) => {
                self.clients.swap_remove(at);
                self.model.certain(change);
                self.met.definitions += u64::from(commits && ddl);
                self.met.prepared_committed += u64::from(commits);
                self.met.prepared_rolled_back += u64::from(!commits);
                if self.db.prepared().iter().any(|p| p.gid == gid) {
                    broken!("{gid} is resolved and still listed");
                }
                Ok(())
            }
            // Found out before anything is written: it is in doubt as before.
            Err(error) if error.kind() == ErrorKind::DiskFull => self.judge_any(error, "commit of a prepared one"),
            Err(error) => {
                self.model.uncertain(change);
                self.met.prepared_uncertain += 1;
                self.dead = true;
                self.judge_any(error, "commit of a prepared one")
            }
        }
    }

    /// After a restart: clients stand for the transactions in doubt again.
    pub fn take_up_prepared(&mut self) {
        let listed = self.db.prepared();
        for (gid, tx) in &mut self.model.committed.prepared {
            if tx.id.is_none()
                && let Some(one) = listed.iter().find(|p| p.gid == *gid)
            {
                Arc::make_mut(tx).id = one.id;
            }
            // What it left of these outlives the restart as it does.
            self.taken_back.extend(tx.taken_back.iter().cloned());
            if !self.clients.iter().any(|c| c.gid.as_ref().is_some_and(|(other, _)| other == gid)) {
                self.met.found_in_doubt += 1;
                self.clients.push(Client::of_prepared(&self.db, gid, tx));
            }
        }
    }

    /// At last none is in doubt.
    pub fn resolve_all(&mut self) -> Found<()> {
        while let Some(at) = self.clients.iter().position(|c| c.gid.is_some()) {
            let before = self.clients.len();
            self.resolve(at)?;
            if self.clients.len() == before {
                broken!("a prepared transaction cannot be resolved");
            }
        }
        Ok(())
    }
}

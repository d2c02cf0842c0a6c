//! Objects of the catalog that are no relations: run, predict, compare. Roles may need roles.

use resurgam_engine::*;

use super::Found;
use super::ddl::forget;
use super::model::*;
use super::schedule::World;
use crate::broken;

/// Number of choices in [`World::random_object`].
pub const CHOICES: u64 = 5;

/// Kinds and names of objects; a type and a role have the same name.
const NAMES: [(ObjectKind, &str); 5] = [
    (ObjectKind::ROLE, "o0"),
    (ObjectKind::ROLE, "o1"),
    (ObjectKind::ROLE, "o2"),
    (ObjectKind::TYPE, "o0"),
    (ObjectKind::TYPE, "o1"),
];

/// What the engine says an object is.
pub fn found(entry: &Table) -> Option<ObjectModel> {
    let object = entry.object.as_ref()?;
    Some(ObjectModel { id: entry.id, needs: object.needs.clone(), body: object.body.clone() })
}

fn schema_of(kind: ObjectKind) -> &'static str {
    if kind == ObjectKind::TYPE { "public" } else { "" }
}

/// How the model names an object.
pub fn key_of(kind: ObjectKind, name: &str) -> (u8, String) {
    (kind.0, name.to_owned())
}

/// All objects that a transaction sees, as the model names them.
pub fn listed(tx: &Transaction) -> Result<Vec<((u8, String), Option<ObjectModel>)>> {
    let mut all = Vec::new();
    for kind in [ObjectKind::ROLE, ObjectKind::TYPE] {
        for entry in tx.objects(kind)? {
            let named = tx.object_named(kind, schema_of(kind), &entry.name)?;
            all.push((key_of(kind, &entry.name), named.as_deref().and_then(found)));
        }
    }
    Ok(all)
}

impl World {
    /// Change number `choice` of an object by client `at`.
    pub fn random_object(&mut self, at: usize, choice: u64) -> Found<()> {
        let state = self.clients[at].own.over(&self.model.committed);
        let Some((kind, name)) = self.rng.pick(&NAMES).copied() else { return Ok(()) };
        let key = key_of(kind, name);
        let tx = self.clients[at].tx.clone();
        self.serial += 1;
        let body = format!("{} {}", self.serial, "x".repeat((self.serial as usize * 61) % 3000)).into_bytes();
        self.clients[at].wanted.insert(name.to_owned());
        let old = match tx.object_named(kind, schema_of(kind), name) {
            Ok(old) => old,
            Err(error) => return self.judge(at, error, "looking an object up"),
        };
        let known = state.objects.get(&key);
        if old.as_deref().and_then(found).as_ref() != known.map(|known| &**known) {
            broken!("object {key:?} is {:?}, expected {known:?}", old.as_deref().and_then(found));
        }
        self.log(|| format!("client {at}: object {choice} {key:?}"));
        // Another role, or none.
        let other = self.rng.pick(&NAMES).copied().filter(|(kind, other)| *kind == ObjectKind::ROLE && *other != name);
        let needed = other.and_then(|(kind, name)| state.objects.get(&key_of(kind, name)));
        // Not what needs this one in turn.
        let needs: Vec<u32> = needed.filter(|other| other.needs.is_empty()).map(|other| other.id).into_iter().collect();
        let Some(old) = old else {
            let object = CatalogObject { kind, needs: needs.clone(), body: body.clone() };
            return match tx.create_object(schema_of(kind), name, object) {
                Ok(Attempt::Done(new)) => {
                    let model = ObjectModel { id: new.id, needs, body };
                    self.object_done(at, Ok(Attempt::Done(())), vec![(key, Some(model))])
                }
                result => self.object_done(at, result.map(forget), Vec::new()),
            };
        };
        let Some(old_model) = found(&old) else { broken!("an object that is none") };
        match choice {
            0 | 1 => {
                let needed = state.objects.values().any(|other| other.needs.contains(&old.id));
                match tx.drop_object(&old) {
                    Err(error) if error.kind() == ErrorKind::DependentObjects && needed => {
                        self.clients[at].failed = true;
                        Ok(())
                    }
                    Ok(Attempt::Done(())) if needed => broken!("object {key:?} was dropped, and is needed"),
                    result => self.object_done(at, result, vec![(key, None)]),
                }
            }
            2 => {
                let free = |to: &&(ObjectKind, &str)| to.0 == kind && !state.objects.contains_key(&key_of(kind, to.1));
                let Some((_, to)) = NAMES.iter().find(free) else { return Ok(()) };
                let result = tx.rename_object(&old, schema_of(kind), to);
                self.object_done(at, result.map(forget), vec![(key, None), (key_of(kind, to), Some(old_model))])
            }
            _ => {
                let needs = if needs.contains(&old.id) { Vec::new() } else { needs };
                let result = tx.replace_object(&old, needs.clone(), body.clone());
                let model = ObjectModel { id: old.id, needs, body };
                self.object_done(at, result.map(forget), vec![(key, Some(model))])
            }
        }
    }

    fn object_done(
        &mut self,
        at: usize,
        result: Result<Attempt<()>>,
        changes: Vec<((u8, String), Option<ObjectModel>)>,
    ) -> Found<()> {
        match result {
            Ok(Attempt::Done(())) => {
                let others = self.clients.iter().enumerate().filter(|(i, client)| *i != at && !client.failed);
                for (_, other) in others {
                    if let Some((key, _)) = changes.iter().find(|(key, _)| other.own.objects.contains_key(key)) {
                        broken!("a change of object {key:?} did not wait for the transaction that has changed it");
                    }
                }
                let client = &mut self.clients[at];
                client.changed_definitions = true;
                for (key, new) in changes {
                    client.own.objects.insert(key, new.map(std::sync::Arc::new));
                }
                self.met.objects += 1;
                Ok(())
            }
            // It waits for who changes the object or has the name: with the transaction it is given up.
            Ok(Attempt::Wait(_)) => {
                self.clients[at].failed = true;
                Ok(())
            }
            Err(error) => self.judge(at, error, "a change of an object"),
        }
    }
}

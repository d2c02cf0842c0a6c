//! What a planned statement needs to be allowed to do, and whether a role is.
//!
//! A plan is kept with what it needs, and with the definitions that it was made with: a GRANT, an owner, a membership that
//! changes raises the catalog's version, and plans of earlier versions are not run. So whether a role may run a plan is looked
//! at once, and after that comparing one number tells ([`Prepared::allowed`](crate::plan::statement::Prepared)).

use std::collections::BTreeSet;
use std::sync::Arc;

use resurgam_engine::{Access, Table};

use crate::pg::roles::acl::{self, Object, privilege as p};
use crate::pg::roles::{Rights, of_system_relation};
use crate::pg::user_functions::UserFunction;
use crate::wire::SqlError;

/// What is needed of one relation.
#[derive(Clone, Debug)]
pub(crate) struct Need {
    pub entry: Arc<Table>,
    /// Whose rights count: those of the owner of the view that reads it; `None`: of whoever runs the statement.
    pub role: Option<u32>,
    /// All of these.
    pub privileges: u32,
    /// Columns that SELECT, INSERT and UPDATE are for.
    pub selected: BTreeSet<usize>,
    pub inserted: BTreeSet<usize>,
    pub updated: BTreeSet<usize>,
    /// The statement names it, with its schema or without.
    pub named: Option<bool>,
}

/// See the module's head.
#[derive(Clone, Debug, Default)]
pub(crate) struct Needs {
    pub relations: Vec<Need>,
    /// Relations of the system that are not for everybody, and whose rights count.
    pub system: Vec<(&'static str, Option<u32>)>,
    /// Functions of users that it calls: EXECUTE on each, of whoever runs the statement, also where a view calls it.
    pub functions: Vec<Arc<UserFunction>>,
    /// Policies of row security have a say in the plan, or would for another role: it is of the role that it was made for.
    pub of_role: bool,
}

impl Needs {
    /// Everybody may do it.
    pub(crate) fn is_empty(&self) -> bool {
        self.relations.is_empty() && self.system.is_empty() && self.functions.is_empty()
    }

    /// The tables that rows are written to.
    pub(crate) fn written(&self) -> impl Iterator<Item = &Arc<Table>> {
        let writes = |need: &&Need| need.privileges & (p::INSERT | p::DELETE) != 0 || !need.updated.is_empty();
        self.relations.iter().filter(writes).map(|need| &need.entry)
    }
}

/// The access of an entry of which nothing is said.
static FIRST: Access = Access::FIRST;

/// Who may do what with an entry.
pub(crate) fn access_of(entry: &Table) -> &Access {
    entry.access.as_deref().unwrap_or(&FIRST)
}

/// What an entry is to whoever asks for rights.
pub(crate) fn object_of(entry: &Table) -> Object {
    if entry.sequence.is_some() { Object::Sequence } else { Object::Table }
}

/// As messages call an entry.
pub(crate) fn word_of(entry: &Table) -> &'static str {
    if entry.view.is_some() { "view" } else { object_of(entry).word() }
}

/// `42501`
pub(crate) fn denied(word: &str, name: &str) -> SqlError {
    SqlError::new("42501", format!("permission denied for {word} {name}"))
}

/// How many columns an entry has.
pub(crate) fn width_of(entry: &Table) -> usize {
    entry.view.as_ref().map_or(entry.columns.len(), |view| view.columns.len())
}

impl Needs {
    /// Whether a role may do all of it.
    ///
    /// # Errors
    /// `42501`; `42P01` for what stands in a schema that the role cannot look into, and is named without it.
    pub(crate) fn check(&self, rights: &Rights, role: u32) -> Result<(), SqlError> {
        for need in &self.relations {
            let Some(qualified) = need.named else { continue };
            let schema = &need.entry.schema;
            let may_look = rights.may_look_into(role, schema);
            match (may_look, qualified) {
                (true, _) => {}
                (false, true) => return Err(denied("schema", schema)),
                (false, false) => {
                    let name = &need.entry.name;
                    return Err(SqlError::new("42P01", format!("relation \"{name}\" does not exist")));
                }
            }
        }
        let readable =
            |name: &str, role| rights.allowed(role, &of_system_relation(name), Object::Table, p::SELECT) != 0;
        if let Some((name, _)) = self.system.iter().find(|(name, of)| !readable(name, of.unwrap_or(role))) {
            let word = acl::hidden_relation(name).map_or("table", |(_, word)| word);
            return Err(denied(word, name));
        }
        let allowed = |need: &Need| need.is_allowed(rights, need.role.unwrap_or(role));
        if let Some(need) = self.relations.iter().find(|need| !allowed(need)) {
            return Err(denied(word_of(&need.entry), &need.entry.name));
        }
        let callable = |of: &&Arc<UserFunction>| rights.allowed(role, &of.access, Object::Function, p::EXECUTE) != 0;
        match self.functions.iter().find(|of| !callable(of)) {
            Some(of) => Err(denied(Object::Function.word(), of.name())),
            None => Ok(()),
        }
    }
}

impl Need {
    /// `ExecCheckRTEPerms`: what is not allowed for the whole relation may be for each of the columns.
    fn is_allowed(&self, rights: &Rights, role: u32) -> bool {
        let access = access_of(&self.entry);
        let missing = self.privileges & !rights.allowed(role, access, object_of(&self.entry), self.privileges);
        if missing == 0 {
            return true;
        }
        if missing & !(p::SELECT | p::INSERT | p::UPDATE) != 0 {
            return false;
        }
        let of_columns = |privilege: u32, columns: &BTreeSet<usize>| {
            let may = |at: &usize| rights.allowed_column(role, access, *at, privilege) != 0;
            match (missing & privilege, columns.is_empty()) {
                (0, _) => true,
                // No column in particular: any is enough.
                (_, true) => (0..width_of(&self.entry)).any(|at| may(&at)),
                (_, false) => columns.iter().all(may),
            }
        };
        of_columns(p::SELECT, &self.selected)
            && of_columns(p::INSERT, &self.inserted)
            && of_columns(p::UPDATE, &self.updated)
    }
}

/// `42501`
pub(crate) fn not_owner(word: &str, name: &str) -> SqlError {
    SqlError::new("42501", format!("must be owner of {word} {name}"))
}

//! Policies of row security: what the catalog keeps of one, and as what PostgreSQL's catalogs show it.
//!
//! A policy is an object of the engine's catalog ([`ObjectKind::POLICY`]) with a query over its table, which holds its
//! conditions:
//!
//! ```text
//! SELECT 1 FROM t WHERE using                                     the rows that are seen
//! SELECT 2 FROM t WHERE check                                     the rows that may be written
//! SELECT 1 FROM t WHERE using UNION ALL SELECT 2 FROM t WHERE check
//! ```
//!
//! ```text
//! body of an entry   version u8 = 1 | command u8 (a letter, as `pg_policy.polcmd` has it) | flags u8 (1 permissive) |
//!                    roles count u16, oids u32 each (0: PUBLIC)
//! ```

use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SetExpr, SetOperator, Visitor, VisitorMut};
use resurgam_ast::{AstWalk, AstWalkMut};
use resurgam_engine::codec::Reader;
use resurgam_engine::{Access, ObjectKind, Table, View};

use crate::definition;
use crate::functions::quote_ident;
use crate::roles::{Rights, Role};
use crate::view::{IsVisible, parsed, present};
use crate::wire::SqlError;

/// What stands for everybody among the roles of a policy.
pub const PUBLIC: u32 = 0;
/// Version of a body.
const BODY: u8 = 1;

/// What a policy is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    All,
    Select,
    Insert,
    Update,
    Delete,
}

impl Command {
    const ALL: [(Self, u8, &str); 5] = [
        (Self::All, b'*', "ALL"),
        (Self::Select, b'r', "SELECT"),
        (Self::Insert, b'a', "INSERT"),
        (Self::Update, b'w', "UPDATE"),
        (Self::Delete, b'd', "DELETE"),
    ];

    fn entry(self) -> (Self, u8, &'static str) {
        Self::ALL.into_iter().find(|(known, ..)| *known == self).unwrap_or(Self::ALL[0])
    }

    /// As `pg_policy.polcmd` has it.
    pub fn letter(self) -> char {
        char::from(self.entry().1)
    }

    /// The word of the statement.
    pub fn word(self) -> &'static str {
        self.entry().2
    }
}

/// Whether policies say which rows of a table a role sees and writes (`check_enable_rls`).
///
/// # Errors
/// `42501` where the setting `row_security` is off, which refuses what they would leave out.
pub fn apply_to(table: &Table, rights: &Rights, role: u32, setting: Option<&str>) -> Result<bool, SqlError> {
    let first = Access::FIRST;
    let access = table.access.as_deref().unwrap_or(&first);
    let is_above = |role: &Role| role.superuser || role.bypass_rls;
    if !access.row_security || rights.get(role).is_some_and(is_above) {
        return Ok(false);
    }
    let owns = rights.has_rights_of(role, access.owner);
    if owns && !access.forced {
        return Ok(false);
    }
    if setting != Some("off") {
        return Ok(true);
    }
    let text = format!("query would be affected by row-level security policy for table \"{}\"", table.name);
    let error = SqlError::new("42501", text);
    let hint = "To disable the policy for the table's owner, use ALTER TABLE NO FORCE ROW LEVEL SECURITY.";
    Err(if owns { error.with_hint(hint) } else { error })
}

/// A policy.
#[derive(Clone, Debug)]
pub struct Policy {
    /// The catalog's entry, whose view holds the conditions.
    pub entry: Arc<Table>,
    /// Id of its table.
    pub table: u32,
    pub rule: Rule,
}

/// What the body of its entry says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub command: Command,
    /// Rows need one permissive policy, and all restrictive ones.
    pub permissive: bool,
    /// Whom it is for; 0: everybody.
    pub roles: Vec<u32>,
}

impl Rule {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![BODY, self.command.entry().1, u8::from(self.permissive)];
        out.extend_from_slice(&(self.roles.len() as u16).to_le_bytes());
        for role in &self.roles {
            out.extend_from_slice(&role.to_le_bytes());
        }
        out
    }

    /// Reads what [`Rule::encode`] wrote.
    fn decode(body: &[u8]) -> resurgam_engine::Result<Self> {
        let mut r = Reader::new(body, "a policy");
        let (version, letter, flags) = (r.u8()?, r.u8()?, r.u8()?);
        let command = Command::ALL.into_iter().find(|(_, known, _)| *known == letter);
        let (true, Some((command, ..)), 0 | 1) = (version == BODY, command, flags) else {
            return Err(r.bad("a policy of an unknown form"));
        };
        let roles = (0..r.u16()?).map(|_| r.u32()).collect::<resurgam_engine::Result<_>>()?;
        match r.is_empty() {
            true => Ok(Self { command, permissive: flags == 1, roles }),
            false => Err(r.bad("a policy that goes on")),
        }
    }

    /// Whether it is for everybody.
    pub fn is_public(&self) -> bool {
        self.roles.contains(&PUBLIC)
    }
}

/// The conditions of a policy.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    pub using: Option<Expr>,
    pub check: Option<Expr>,
}

impl Conditions {
    /// Those of a policy's query; `None`: no policy has such a one.
    pub fn of(query: Query) -> Option<Self> {
        let mut found = Self::default();
        let mut left = vec![*query.body];
        while let Some(body) = left.pop() {
            match body {
                SetExpr::SetOperation { op: SetOperator::Union, left: a, right: b, .. } => left.extend([*a, *b]),
                SetExpr::Select(select) => {
                    let [item] = select.projection.as_slice() else { return None };
                    let place = match item.to_string().as_str() {
                        "1" => &mut found.using,
                        "2" => &mut found.check,
                        _ => return None,
                    };
                    *place = Some(select.selection?);
                }
                _ => return None,
            }
        }
        Some(found)
    }

    /// The text of a query that holds them, over a table by its full name.
    pub fn query(&self, schema: &str, table: &str) -> String {
        let quoted = |name: &str| Ident::with_quote('"', name).to_string();
        let select = |at: u8, condition: &Expr| {
            format!("SELECT {at} FROM {}.{} WHERE {condition}", quoted(schema), quoted(table))
        };
        let all = [(1, &self.using), (2, &self.check)];
        let all: Vec<String> =
            all.into_iter().filter_map(|(at, condition)| Some(select(at, condition.as_ref()?))).collect();
        all.join(" UNION ALL ")
    }
}

impl Policy {
    /// # Errors
    /// `XX001`
    pub fn of_entry(entry: &Arc<Table>) -> Result<Self, SqlError> {
        let bad = || SqlError::new("XX001", format!("policy \"{}\" cannot be read", entry.name));
        let object = entry.object.as_ref().filter(|object| object.kind == ObjectKind::POLICY).ok_or_else(bad)?;
        let table = entry.policy_of().ok_or_else(bad)?;
        Ok(Self { entry: Arc::clone(entry), table, rule: Rule::decode(&object.body)? })
    }

    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Its query, and what the names in it mean.
    ///
    /// # Errors
    /// `XX000`
    pub fn view(&self) -> Result<&View, SqlError> {
        self.entry.view.as_deref().ok_or_else(|| SqlError::internal(format!("policy \"{}\" has no query", self.name())))
    }

    /// Its conditions, with the names that its table's columns and what its subqueries read have by now; those that are not
    /// visible get their schemas. `relation` knows tables and views by id.
    ///
    /// # Errors
    /// `XX000`
    pub fn conditions(
        &self,
        table: &Table,
        is_visible: IsVisible<'_>,
        relation: &dyn Fn(u32) -> Option<Arc<Table>>,
    ) -> Result<Conditions, SqlError> {
        let bad = || SqlError::internal(format!("the conditions of policy \"{}\" cannot be read", self.name()));
        let view = self.view()?;
        if view.sql.is_empty() {
            return Ok(Conditions::default());
        }
        let mut query = parsed(&view.sql).ok_or_else(bad)?;
        present(view, &mut query, is_visible, relation);
        let mut found = Conditions::of(*query).ok_or_else(bad)?;
        let seen = view.relations.iter().filter(|relation| relation.id == self.table);
        let renamed: Vec<(String, String)> = seen
            .flat_map(|relation| &relation.columns)
            .filter_map(|column| Some((column.name.clone(), table.columns.get(column.at)?.name.clone())))
            .filter(|(before, now)| before != now)
            .collect();
        if !renamed.is_empty() {
            for condition in [&mut found.using, &mut found.check].into_iter().flatten() {
                let _ = condition.walk_mut(&mut Rename(&renamed));
            }
        }
        Ok(found)
    }
}

/// A condition as `pg_get_expr` shows it, but for lists, whose constants would need types to be read again as PostgreSQL shows
/// them.
pub fn shown(condition: &Expr) -> String {
    struct Lists;
    impl Visitor for Lists {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::InList { .. } => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let mut named = condition.clone();
    crate::extensions::show_names(&mut named);
    let condition = &named;
    match condition.walk(&mut Lists) {
        ControlFlow::Continue(()) => definition::shown(condition),
        ControlFlow::Break(()) => format!("({condition})"),
    }
}

/// Gives columns other names. (Of subqueries, too, which may have columns of these names of their own: a condition with both
/// is shown as it cannot be read.)
struct Rename<'a>(&'a [(String, String)]);

impl VisitorMut for Rename<'_> {
    type Break = ();
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let last = match expr {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(parts) => parts.last_mut(),
            _ => None,
        };
        if let Some(name) = last {
            let folded = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_lowercase() };
            if let Some((_, now)) = self.0.iter().find(|(before, _)| *before == folded) {
                *name = if quote_ident(now) == *now { Ident::new(now) } else { Ident::with_quote('"', now) };
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_comes_back_whole_or_not_at_all() {
        let rule = Rule { command: Command::Update, permissive: true, roles: vec![0, 16_400] };
        let bytes = rule.encode();
        assert_eq!(Rule::decode(&bytes).expect("a rule"), rule);
        for len in 0..bytes.len() {
            assert!(Rule::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
        for at in [0, 1, 2] {
            let mut other = bytes.clone();
            other[at] = 0xEE;
            assert!(Rule::decode(&other).is_err(), "byte {at}");
        }
        assert!(Rule::decode(&[&bytes[..], &[0]].concat()).is_err());
    }

    #[test]
    fn conditions_go_into_a_query_and_come_back() {
        let query = |sql: &str| *parsed(sql).expect("a query");
        let text = "SELECT 1 FROM \"s\".\"t\" WHERE a = 1 UNION ALL SELECT 2 FROM \"s\".\"t\" WHERE b > 2";
        let found = Conditions::of(query(text)).expect("conditions");
        assert_eq!(found.query("s", "t"), text);
        let only = Conditions { using: None, ..found };
        assert_eq!(only.query("s", "t"), "SELECT 2 FROM \"s\".\"t\" WHERE b > 2");
        assert!(Conditions::of(query("SELECT 3 FROM t WHERE a")).is_none());
        assert!(Conditions::of(query("SELECT 1 FROM t")).is_none());
    }
}

//! `pg_policy` and `pg_policies`.

use super::model::relation_oid;
use super::rows::{Rows, V};
use crate::context::PgContext;
use crate::definition;
use crate::policies::{Policy, PUBLIC};
use crate::wire::SqlError;

/// Fills either of them.
pub(super) fn fill(name: &str, rows: &mut Rows<'_>, cx: &dyn PgContext) -> Result<(), SqlError> {
    let (rights, tables) = (cx.rights()?, cx.tables()?);
    for entry in cx.policies()? {
        let policy = Policy::of_entry(&entry)?;
        let Some(table) = tables.iter().find(|table| table.id == policy.table) else { continue };
        let conditions = policy.conditions(table)?;
        let shown = |condition: Option<_>| V::from(condition.map(|condition| definition::shown(&condition)));
        let (using, check) = (shown(conditions.using), shown(conditions.check));
        let rule = &policy.rule;
        if name == "pg_policy" {
            rows.add([
                ("oid", entry.id.into()),
                ("polname", policy.name().into()),
                ("polrelid", relation_oid(table.id).into()),
                ("polcmd", rule.command.letter().into()),
                ("polpermissive", rule.permissive.into()),
                ("polroles", rule.roles.clone().into()),
                ("polqual", using),
                ("polwithcheck", check),
            ]);
            continue;
        }
        let role = |oid: &u32| if *oid == PUBLIC { "public".to_owned() } else { rights.name(*oid) };
        rows.add([
            ("schemaname", table.schema.as_str().into()),
            ("tablename", table.name.as_str().into()),
            ("policyname", policy.name().into()),
            ("permissive", (if rule.permissive { "PERMISSIVE" } else { "RESTRICTIVE" }).into()),
            ("roles", rule.roles.iter().map(role).collect::<Vec<_>>().into()),
            ("cmd", rule.command.word().into()),
            ("qual", using),
            ("with_check", check),
        ]);
    }
    Ok(())
}

//! `pg_policy` and `pg_policies`.

use super::model::{Model, relation_oid};
use super::rows::{Rows, V};
use crate::context::PgContext;
use crate::policies::{PUBLIC, Policy, shown};
use crate::wire::SqlError;

/// Oid of `pg_policy`.
pub const CLASS_POLICY: u32 = 3256;

/// Fills either of them.
pub(super) fn fill(name: &str, rows: &mut Rows<'_>, cx: &dyn PgContext, model: &Model) -> Result<(), SqlError> {
    let rights = cx.rights()?;
    for entry in cx.policies()? {
        let policy = Policy::of_entry(&entry)?;
        let Some(table) = model.tables.iter().find(|table| table.id == policy.table) else { continue };
        let conditions =
            policy.conditions(table, &|schema, name| model.is_visible(schema, name), &|id| model.entry(id))?;
        let text = |condition: Option<_>| V::from(condition.map(|condition| shown(&condition)));
        let (using, check) = (text(conditions.using), text(conditions.check));
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

//! `pg_get_keywords`: the words of PostgreSQL 15's grammar. Each of its columns is a function that lists all values.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanBuilder, ListBuilder, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field};

use super::define::{PgFunction, Returns, f};

/// The words in order, each with its category, which is a small letter where AS has to be before it as a label.
const WORDS: &str = "\
    abort:U absolute:U access:U action:U add:U admin:U after:U aggregate:U all:R also:U alter:U always:U analyse:R \
    analyze:R and:R any:R array:r as:r asc:R asensitive:U assertion:U assignment:U asymmetric:R at:U atomic:U \
    attach:U attribute:U authorization:T backward:U before:U begin:U between:C bigint:C binary:T bit:C boolean:C \
    both:R breadth:U by:U cache:U call:U called:U cascade:U cascaded:U case:R cast:R catalog:U chain:U char:c \
    character:c characteristics:U check:R checkpoint:U class:U close:U cluster:U coalesce:C collate:R collation:T \
    column:R columns:U comment:U comments:U commit:U committed:U compression:U concurrently:T configuration:U \
    conflict:U connection:U constraint:R constraints:U content:U continue:U conversion:U copy:U cost:U create:r \
    cross:T csv:U cube:U current:U current_catalog:R current_date:R current_role:R current_schema:T current_time:R \
    current_timestamp:R current_user:R cursor:U cycle:U data:U database:U day:u deallocate:U dec:C decimal:C \
    declare:U default:R defaults:U deferrable:R deferred:U definer:U delete:U delimiter:U delimiters:U depends:U \
    depth:U desc:R detach:U dictionary:U disable:U discard:U distinct:R do:R document:U domain:U double:U drop:U \
    each:U else:R enable:U encoding:U encrypted:U end:R enum:U escape:U event:U except:r exclude:U excluding:U \
    exclusive:U execute:U exists:C explain:U expression:U extension:U external:U extract:C false:R family:U \
    fetch:r filter:u finalize:U first:U float:C following:U for:r force:U foreign:R forward:U freeze:T from:r \
    full:T function:U functions:U generated:U global:U grant:r granted:U greatest:C group:r grouping:C groups:U \
    handler:U having:r header:U hold:U hour:u identity:U if:U ilike:T immediate:U immutable:U implicit:U import:U \
    in:R include:U including:U increment:U index:U indexes:U inherit:U inherits:U initially:R inline:U inner:T \
    inout:C input:U insensitive:U insert:U instead:U int:C integer:C intersect:r interval:C into:r invoker:U is:T \
    isnull:t isolation:U join:T key:U label:U language:U large:U last:U lateral:R leading:R leakproof:U least:C \
    left:T level:U like:T limit:r listen:U load:U local:U localtime:R localtimestamp:R location:U lock:U locked:U \
    logged:U mapping:U match:U matched:U materialized:U maxvalue:U merge:U method:U minute:u minvalue:U mode:U \
    month:u move:U name:U names:U national:C natural:T nchar:C new:U next:U nfc:U nfd:U nfkc:U nfkd:U no:U none:C \
    normalize:C normalized:U not:R nothing:U notify:U notnull:t nowait:U null:R nullif:C nulls:U numeric:C \
    object:U of:U off:U offset:r oids:U old:U on:r only:R operator:U option:U options:U or:R order:r ordinality:U \
    others:U out:C outer:T over:u overlaps:t overlay:C overriding:U owned:U owner:U parallel:U parameter:U \
    parser:U partial:U partition:U passing:U password:U placing:R plans:U policy:U position:C preceding:U \
    precision:c prepare:U prepared:U preserve:U primary:R prior:U privileges:U procedural:U procedure:U \
    procedures:U program:U publication:U quote:U range:U read:U real:C reassign:U recheck:U recursive:U ref:U \
    references:R referencing:U refresh:U reindex:U relative:U release:U rename:U repeatable:U replace:U replica:U \
    reset:U restart:U restrict:U return:U returning:r returns:U revoke:U right:T role:U rollback:U rollup:U \
    routine:U routines:U row:C rows:U rule:U savepoint:U schema:U schemas:U scroll:U search:U second:u security:U \
    select:R sequence:U sequences:U serializable:U server:U session:U session_user:R set:U setof:C sets:U share:U \
    show:U similar:T simple:U skip:U smallint:C snapshot:U some:R sql:U stable:U standalone:U start:U statement:U \
    statistics:U stdin:U stdout:U storage:U stored:U strict:U strip:U subscription:U substring:C support:U \
    symmetric:R sysid:U system:U table:R tables:U tablesample:T tablespace:U temp:U template:U temporary:U text:U \
    then:R ties:U time:C timestamp:C to:r trailing:R transaction:U transform:U treat:C trigger:U trim:C true:R \
    truncate:U trusted:U type:U types:U uescape:U unbounded:U uncommitted:U unencrypted:U union:r unique:R \
    unknown:U unlisten:U unlogged:U until:U update:U user:R using:R vacuum:U valid:U validate:U validator:U \
    value:U values:C varchar:C variadic:R varying:u verbose:T version:U view:U views:U volatile:U when:R where:r \
    whitespace:U window:r with:r within:u without:u work:U wrapper:U write:U xml:U xmlattributes:C xmlconcat:C \
    xmlelement:C xmlexists:C xmlforest:C xmlnamespaces:C xmlparse:C xmlpi:C xmlroot:C xmlserialize:C xmltable:C \
    year:u yes:U zone:U";

/// Word, category, whether it can be a label by itself.
fn words() -> impl Iterator<Item = (&'static str, char, bool)> {
    WORDS.split(' ').filter_map(|entry| {
        let (word, category) = entry.split_once(':')?;
        let category = category.chars().next()?;
        Some((word, category.to_ascii_uppercase(), category.is_ascii_uppercase()))
    })
}

fn described(category: char) -> &'static str {
    match category {
        'U' => "unreserved",
        'C' => "unreserved (cannot be function or type name)",
        'T' => "reserved (can be function or type name)",
        _ => "reserved",
    }
}

/// A column of texts.
fn texts(name: &'static str, text: fn(&'static str, char, bool) -> String) -> PgFunction {
    let list = Returns::By(|_| Arc::new(Field::new("", DataType::new_list(DataType::Utf8View, true), true)));
    f(name, &[], list, move |call| {
        let mut builder = ListBuilder::new(StringViewBuilder::new());
        for _ in 0..call.rows {
            for (word, category, is_label) in words() {
                builder.values().append_value(text(word, category, is_label));
            }
            builder.append(true);
        }
        Ok(Arc::new(builder.finish()) as ArrayRef)
    })
}

pub(super) fn all() -> Vec<PgFunction> {
    let flags = Returns::By(|_| Arc::new(Field::new("", DataType::new_list(DataType::Boolean, true), true)));
    vec![
        texts("pg_keywords_word", |word, _, _| word.to_owned()),
        texts("pg_keywords_catcode", |_, category, _| category.to_string()),
        f("pg_keywords_barelabel", &[], flags, |call| {
            let mut builder = ListBuilder::new(BooleanBuilder::new());
            for _ in 0..call.rows {
                for (_, _, is_label) in words() {
                    builder.values().append_value(is_label);
                }
                builder.append(true);
            }
            Ok(Arc::new(builder.finish()) as ArrayRef)
        }),
        texts("pg_keywords_catdesc", |_, category, _| described(category).to_owned()),
        texts("pg_keywords_baredesc", |_, _, is_label| {
            if is_label { "can be bare label" } else { "requires AS" }.to_owned()
        }),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words() {
        assert_eq!(words().count(), 460);
        assert!(words().map(|(word, _, _)| word).is_sorted());
        assert!(words().any(|word| word == ("as", 'R', false)));
        assert!(words().any(|word| word == ("abort", 'U', true)));
    }
}

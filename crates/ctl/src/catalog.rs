//! The catalog's rows and what they define, as of the newest versions that count.
//! When the catalog's tree is damaged its leaves are looked for in the whole data file.

use std::collections::{BTreeMap, HashSet};

use resurgam_base::{Lsn, ObjectId, PageId, SlotId};
use resurgam_btree::Tree;
use resurgam_engine::FIRST_DATABASE;
use resurgam_engine::stored::{CATALOG_OBJECT, CatalogKey, Definition, NameOf};
use resurgam_page::{LeafRecord, PageBuf, PageType};

use crate::image::Image;
use crate::versions::{Current, current};
use crate::walk::{From, Visitor, walk};

/// A problem met in the catalog.
pub(crate) struct CatalogProblem {
    /// Where, if it is at a place in the data file.
    pub at: Option<(PageId, Option<SlotId>)>,
    pub what: String,
}

/// A name as the catalog has it.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub schema: String,
    pub name: String,
    pub id: u32,
    pub is_index: bool,
}

/// Definitions and names.
#[derive(Default)]
pub(crate) struct Catalog {
    pub tables: BTreeMap<u32, Definition>,
    pub names: Vec<Name>,
    pub problems: Vec<CatalogProblem>,
    /// Leaves were found by scanning, because the tree is damaged.
    pub scanned: bool,
}

/// Rows by key, each with the LSN of the page it was found on.
#[derive(Default)]
struct Rows {
    rows: BTreeMap<Vec<u8>, (Lsn, Vec<u8>)>,
    seen: HashSet<PageId>,
    problems: Vec<CatalogProblem>,
}

impl Visitor for Rows {
    fn enter(&mut self, id: PageId, _from: Option<From>) -> bool {
        self.seen.insert(id)
    }
    fn node(&mut self, image: &Image, id: PageId, page: &PageBuf) {
        if !page.is(PageType::Leaf) {
            return;
        }
        for slot in (0..page.slot_count()).map(SlotId) {
            let found = LeafRecord::parse(page.rec(slot))
                .map_err(|e| e.message().to_owned())
                .and_then(|record| Ok((record.key.to_vec(), current(image, page.object(), &record)?)));
            match found {
                Ok((key, Current::Row(value) | Current::Earlier(value))) => {
                    let newer = self.rows.get(&key).is_none_or(|(lsn, _)| *lsn < page.lsn());
                    if newer {
                        self.rows.insert(key, (page.lsn(), value));
                    }
                }
                Ok((_, Current::Deleted | Current::Never)) => {}
                Err(what) => self.problem(id, Some(slot), what),
            }
        }
    }
    fn problem(&mut self, page: PageId, slot: Option<SlotId>, what: String) {
        self.problems.push(CatalogProblem { at: Some((page, slot)), what });
    }
}

/// Among which names one is: those of a schema's relations, or of the objects of a kind, in a database.
fn namespace(database: u32, kind: Option<u8>, schema: &str) -> String {
    let here = match kind {
        Some(kind) => format!("objects of kind {kind} \"{schema}\""),
        None => schema.to_owned(),
    };
    if database == FIRST_DATABASE { here } else { format!("database {database}: {here}") }
}

fn space_of(definition: &Definition) -> String {
    match &definition.object {
        Some(object) => {
            namespace(definition.database, Some(object.kind.0), object.kind.naming_schema(&definition.schema))
        }
        None => namespace(definition.database, None, &definition.schema),
    }
}

/// Reads the catalog.
pub(crate) fn load(image: &Image) -> Catalog {
    let mut rows = Rows::default();
    let mut scanned = false;
    match &image.boot {
        Some(boot) => walk(image, Tree { root: boot.catalog_root, object: boot.catalog_object }, false, &mut rows),
        None => {
            rows.problems.push(CatalogProblem { at: None, what: "without the boot page its root is not known".into() })
        }
    }
    if !rows.problems.is_empty() {
        scanned = true;
        let object = image.boot.as_ref().map_or(CATALOG_OBJECT, |boot| boot.catalog_object);
        scan(image, object, &mut rows);
    }
    let mut catalog = Catalog { problems: rows.problems, scanned, ..Catalog::default() };
    catalog.interpret(&rows.rows);
    catalog
}

/// Takes the leaves of `object` that the walk did not reach.
fn scan(image: &Image, object: ObjectId, rows: &mut Rows) {
    for id in (1..image.file_pages).map(PageId) {
        if rows.seen.contains(&id) {
            continue;
        }
        // A look at the raw bytes first: few pages are the catalog's.
        let Ok((raw, _)) = image.raw(id) else { continue };
        if image.pending(id).is_none() && !(raw.is(PageType::Leaf) && raw.object() == object) {
            continue;
        }
        if let Ok(loaded) = image.page(id)
            && loaded.page.is(PageType::Leaf)
            && loaded.page.object() == object
        {
            rows.node(image, id, &loaded.page);
        }
    }
}

impl Catalog {
    fn bad(&mut self, what: String) {
        self.problems.push(CatalogProblem { at: None, what });
    }

    fn interpret(&mut self, rows: &BTreeMap<Vec<u8>, (Lsn, Vec<u8>)>) {
        let mut chunks: BTreeMap<u32, Vec<(u16, &[u8])>> = BTreeMap::new();
        for (key, (_, value)) in rows {
            match CatalogKey::decode(key) {
                Some(CatalogKey::Definition { id, chunk }) => chunks.entry(id).or_default().push((chunk, value)),
                Some(CatalogKey::Name { database, schema, name }) => match NameOf::decode(value) {
                    Some(NameOf { table, is_index }) => {
                        let schema = namespace(database, None, &schema);
                        self.names.push(Name { schema, name, id: table, is_index });
                    }
                    None => self.bad(format!("the name with key {key:02x?} cannot be read")),
                },
                Some(CatalogKey::ObjectName { database, kind, schema, name }) => match NameOf::decode(value) {
                    Some(NameOf { table: id, .. }) => {
                        self.names.push(Name {
                            schema: namespace(database, Some(kind), &schema),
                            name,
                            id,
                            is_index: false,
                        });
                    }
                    None => self.bad(format!("the name with key {key:02x?} cannot be read")),
                },
                Some(CatalogKey::Values { number }) if value.len() != 9 => {
                    self.bad(format!("the values of sequence number {number} cannot be read"));
                }
                // Statistics that cannot be read are none to whoever asks for them.
                Some(CatalogKey::Values { .. } | CatalogKey::Statistics { .. }) => {}
                None => self.bad(format!("a row with unknown key {key:02x?}")),
            }
        }
        for (id, chunks) in chunks {
            if let Some((at, _)) = chunks.iter().enumerate().find(|(at, (chunk, _))| *at != usize::from(*chunk)) {
                self.bad(format!("chunk {at} of the definition of table {id} is missing"));
                continue;
            }
            let bytes: Vec<u8> = chunks.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
            match Definition::decode(&bytes) {
                Ok(definition) if definition.id == id => {
                    self.tables.insert(id, definition);
                }
                Ok(definition) => self.bad(format!("the definition of table {id} names table {}", definition.id)),
                Err(error) => self.bad(format!("the definition of table {id}: {}", error.message())),
            }
        }
        self.check_names();
    }

    /// Names and definitions must agree.
    fn check_names(&mut self) {
        let spaces: Vec<String> = self.tables.values().map(space_of).collect();
        let mut defined: HashSet<(&str, &str, u32, bool)> = HashSet::new();
        for (table, space) in self.tables.values().zip(&spaces) {
            defined.insert((space, &table.name, table.id, false));
            for index in &table.indexes {
                defined.insert((space, &index.name, index.id, true));
            }
        }
        let mut wrong: Vec<String> = self
            .names
            .iter()
            .filter(|n| !n.is_index && !defined.contains(&(n.schema.as_str(), n.name.as_str(), n.id, false)))
            .map(|n| {
                format!("the name {}.{} is that of table {}, which has no such definition", n.schema, n.name, n.id)
            })
            .collect();
        let named: HashSet<(&str, &str)> = self.names.iter().map(|n| (n.schema.as_str(), n.name.as_str())).collect();
        wrong.extend(
            defined.iter().filter(|(schema, name, ..)| !named.contains(&(schema, name))).map(
                |(schema, name, id, _)| format!("{schema}.{name} (id {id}) is defined but its name is not reserved"),
            ),
        );
        wrong.sort();
        wrong.into_iter().for_each(|what| self.bad(what));
    }
}

//! todo
use crate::pg::context::PgContext;
use crate::wire::SqlError;
pub const SUPERUSER_OID: u32 = 10;
pub struct Relation { pub oid: u32 }
impl Relation { pub fn visible_name(&self) -> String { String::new() } }
pub fn relations(_cx: &dyn PgContext) -> Result<Vec<Relation>, SqlError> { Ok(vec![]) }
pub fn namespaces(_cx: &dyn PgContext) -> Result<Vec<(u32, String)>, SqlError> { Ok(vec![]) }

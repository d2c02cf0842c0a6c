//! From one type to another: which ways there are, which type several values have in common, and
//! what polymorphic types stand for in a call.

mod array;
mod cast;
mod common;
mod pathway;
mod polymorphic;

pub use array::ArrayType;
pub use cast::{CastPlan, CastStep};
pub use common::{common_typmod, same_typmod};
pub use pathway::Pathway;

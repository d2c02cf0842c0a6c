//! Names of calls as columns.
//!
//! Planning names an expression by its text, at each level of it anew: a sum of n terms costs it n³ characters. So
//! calls whose arguments are deep are named by a hash of them instead. As names tell columns apart, the hash has 128 bits, with
//! keys that are drawn for each process.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::Expr;

/// Levels of arguments that a name shows.
const LEVELS: usize = 6;

/// What a call of `name` is called as a column.
pub fn call_name(name: &str, args: &[Expr]) -> String {
    if args.iter().any(|arg| is_deeper(arg, LEVELS)) {
        static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
        let keys = KEYS.get_or_init(Default::default);
        let [high, low] = keys.each_ref().map(|keys| keys.hash_one(args));
        return format!("{name}(#{high:016x}{low:016x})");
    }
    let args: Vec<String> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
    format!("{name}({})", args.join(","))
}

fn is_deeper(expr: &Expr, levels: usize) -> bool {
    let mut deeper = false;
    let _ = expr.apply_children(|child| {
        deeper |= levels == 0 || is_deeper(child, levels - 1);
        Ok(if deeper { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    deeper
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::{col, lit};

    use super::*;

    fn chain(levels: i32, last: i32) -> Expr {
        (0..levels).fold(col("a"), |sum, at| sum + lit(if at == 0 { last } else { at }))
    }

    #[test]
    fn shallow_calls_show_their_arguments() {
        assert_eq!(call_name("f", &[col("a"), lit(1) + lit(2)]), "f(a,Int32(1) + Int32(2))");
    }

    #[test]
    fn deep_calls_have_short_names_that_tell_them_apart() {
        let name = |last| call_name("f", &[chain(100, last)]);
        assert_eq!(name(7), name(7));
        assert_ne!(name(7), name(8));
        assert_ne!(name(7), call_name("g", &[chain(100, 7)]));
        assert!(name(7).len() < 50);
    }
}

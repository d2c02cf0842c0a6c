//! The small enumerations of the catalogs, each with the letter that PostgreSQL's catalogs keep.

/// A letter of a catalog column and what it stands for.
macro_rules! letters {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $letter:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$vdoc])* $variant),* }

        impl $name {
            /// The letter in PostgreSQL's catalog.
            pub const fn letter(self) -> char {
                match self { $($name::$variant => $letter),* }
            }

            pub(crate) fn from_letter(letter: char) -> $name {
                match letter {
                    $($letter => $name::$variant,)*
                    _ => panic!(concat!("no letter of ", stringify!($name), ": {:?}"), letter),
                }
            }
        }
    };
}

letters! {
    /// `pg_type.typtype`.
    TypeKind {
        Base = 'b',
        /// A row type.
        Composite = 'c',
        Domain = 'd',
        Enum = 'e',
        Multirange = 'm',
        /// No value has it: `anyelement`, `record`, `void`, `unknown`…
        Pseudo = 'p',
        Range = 'r',
    }
}

letters! {
    /// `pg_proc.prokind`.
    FunctionKind { Function = 'f', Procedure = 'p', Aggregate = 'a', Window = 'w' }
}

letters! {
    /// `pg_proc.proargmodes`, one a parameter.
    ArgMode { In = 'i', Out = 'o', InOut = 'b', Variadic = 'v', Table = 't' }
}

letters! {
    /// `pg_proc.provolatile`: may two calls with the same arguments differ?
    Volatility {
        /// Never.
        Immutable = 'i',
        /// Not within one statement.
        Stable = 's',
        /// At any time.
        Volatile = 'v',
    }
}

letters! {
    /// `pg_proc.proparallel`.
    Parallel { Safe = 's', Restricted = 'r', Unsafe = 'u' }
}

letters! {
    /// Where a cast is applied without being asked for. Ordered: what a context allows, every later
    /// one allows as well (`pg_cast.castcontext`, and the context of a coercion).
    CastContext {
        /// Anywhere in an expression.
        Implicit = 'i',
        /// Where a value is stored into a column.
        Assignment = 'a',
        /// `CAST(x AS t)`, `x::t` only.
        Explicit = 'e',
    }
}

letters! {
    /// `pg_cast.castmethod`.
    CastMethod {
        /// A function is called.
        Function = 'f',
        /// The value is the same, only its type is another.
        Binary = 'b',
        /// Output of the one type, input of the other.
        InOut = 'i',
    }
}

letters! {
    /// `pg_aggregate.aggkind`.
    AggregateKind {
        Normal = 'n',
        /// `percentile_cont(0.5) WITHIN GROUP (ORDER BY x)`.
        OrderedSet = 'o',
        /// `rank(3) WITHIN GROUP (ORDER BY x)`.
        Hypothetical = 'h',
    }
}

impl AggregateKind {
    /// Needs WITHIN GROUP.
    pub const fn is_ordered_set(self) -> bool {
        !matches!(self, AggregateKind::Normal)
    }
}

/// The schemas of built-in objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Schema {
    PgCatalog,
    InformationSchema,
    /// One of a user, and whether names without a schema are looked for in it.
    User(&'static str, bool),
}

impl Schema {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Schema::PgCatalog => "pg_catalog",
            Schema::InformationSchema => "information_schema",
            Schema::User(name, _) => name,
        }
    }

    /// The schema of this name, if it is one of the two.
    pub fn from_name(name: &str) -> Option<Schema> {
        [Schema::PgCatalog, Schema::InformationSchema].into_iter().find(|s| s.name() == name)
    }
}

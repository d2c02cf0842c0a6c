//! The tables, their primary keys, and indexes on columns that refer to other tables' keys where no primary key
//! begins with them (TPC-H 1.4).

use super::population::Table;

/// Columns with their types.
pub fn columns(table: Table) -> &'static str {
    match table {
        Table::Region => "r_regionkey integer NOT NULL, r_name char(25) NOT NULL, r_comment varchar(152)",
        Table::Nation => {
            "n_nationkey integer NOT NULL, n_name char(25) NOT NULL, n_regionkey integer NOT NULL, n_comment varchar(152)"
        }
        Table::Supplier => {
            "s_suppkey integer NOT NULL, s_name char(25) NOT NULL, s_address varchar(40) NOT NULL, \
             s_nationkey integer NOT NULL, s_phone char(15) NOT NULL, s_acctbal numeric(15,2) NOT NULL, \
             s_comment varchar(101) NOT NULL"
        }
        Table::Part => {
            "p_partkey integer NOT NULL, p_name varchar(55) NOT NULL, p_mfgr char(25) NOT NULL, p_brand char(10) NOT NULL, \
             p_type varchar(25) NOT NULL, p_size integer NOT NULL, p_container char(10) NOT NULL, \
             p_retailprice numeric(15,2) NOT NULL, p_comment varchar(23) NOT NULL"
        }
        Table::PartSupp => {
            "ps_partkey integer NOT NULL, ps_suppkey integer NOT NULL, ps_availqty integer NOT NULL, \
             ps_supplycost numeric(15,2) NOT NULL, ps_comment varchar(199) NOT NULL"
        }
        Table::Customer => {
            "c_custkey integer NOT NULL, c_name varchar(25) NOT NULL, c_address varchar(40) NOT NULL, \
             c_nationkey integer NOT NULL, c_phone char(15) NOT NULL, c_acctbal numeric(15,2) NOT NULL, \
             c_mktsegment char(10) NOT NULL, c_comment varchar(117) NOT NULL"
        }
        Table::Orders => {
            "o_orderkey integer NOT NULL, o_custkey integer NOT NULL, o_orderstatus char(1) NOT NULL, \
             o_totalprice numeric(15,2) NOT NULL, o_orderdate date NOT NULL, o_orderpriority char(15) NOT NULL, \
             o_clerk char(15) NOT NULL, o_shippriority integer NOT NULL, o_comment varchar(79) NOT NULL"
        }
        Table::LineItem => {
            "l_orderkey integer NOT NULL, l_partkey integer NOT NULL, l_suppkey integer NOT NULL, \
             l_linenumber integer NOT NULL, l_quantity numeric(15,2) NOT NULL, l_extendedprice numeric(15,2) NOT NULL, \
             l_discount numeric(15,2) NOT NULL, l_tax numeric(15,2) NOT NULL, l_returnflag char(1) NOT NULL, \
             l_linestatus char(1) NOT NULL, l_shipdate date NOT NULL, l_commitdate date NOT NULL, \
             l_receiptdate date NOT NULL, l_shipinstruct char(25) NOT NULL, l_shipmode char(10) NOT NULL, \
             l_comment varchar(44) NOT NULL"
        }
    }
}

/// Columns of the primary key.
pub fn key(table: Table) -> &'static str {
    match table {
        Table::Region => "r_regionkey",
        Table::Nation => "n_nationkey",
        Table::Supplier => "s_suppkey",
        Table::Part => "p_partkey",
        Table::PartSupp => "ps_partkey, ps_suppkey",
        Table::Customer => "c_custkey",
        Table::Orders => "o_orderkey",
        Table::LineItem => "l_orderkey, l_linenumber",
    }
}

/// Columns of the other indexes.
pub fn indexes(table: Table) -> &'static [&'static str] {
    match table {
        Table::Region | Table::Part => &[],
        Table::Nation => &["n_regionkey"],
        Table::Supplier => &["s_nationkey"],
        Table::PartSupp => &["ps_suppkey"],
        Table::Customer => &["c_nationkey"],
        Table::Orders => &["o_custkey"],
        Table::LineItem => &["l_partkey, l_suppkey", "l_suppkey"],
    }
}

/// Columns that refer to another table, and that table.
pub fn references(table: Table) -> &'static [(&'static str, &'static str)] {
    match table {
        Table::Region | Table::Part => &[],
        Table::Nation => &[("n_regionkey", "region")],
        Table::Supplier => &[("s_nationkey", "nation")],
        Table::PartSupp => &[("ps_partkey", "part"), ("ps_suppkey", "supplier")],
        Table::Customer => &[("c_nationkey", "nation")],
        Table::Orders => &[("o_custkey", "customer")],
        Table::LineItem => &[("l_orderkey", "orders"), ("l_partkey, l_suppkey", "partsupp")],
    }
}

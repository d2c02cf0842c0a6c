//! Parameters of domains: which they are, and what is asked of their values when they are bound.
//!
//! A parameter without a type that stands where a column of a domain is assigned, or before a cast to one, is of the domain, as in
//! PostgreSQL. Its value is read as one of what the domain is of, and held against the domain then (`domain_in`, domains.c), whether or not
//! a row comes to be written. What cannot be asked of a value alone is left to whoever writes the row.

use std::sync::Arc;

use datafusion::common::{DFSchema, ScalarValue};
use resurgam_engine::ColumnType;

use crate::exec::direct::{Input, RowExpr};
use crate::pg::arrow::datum_of_scalar;
use crate::pg::datetime::Zone;
use crate::pg::types::column_type_of_oid;
use crate::pg::user_types::{base_type, constraints};
use crate::plan::analyze::parameter_of_domain;
use crate::plan::planner::{Names, as_in_plan, simplified};
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct DomainParams {
    /// Of each parameter; 0: it is of none.
    domains: Vec<u32>,
    demands: Vec<Demand>,
}

/// What is asked of a parameter.
#[derive(Debug)]
struct Demand {
    at: usize,
    /// What the domain is of, if that has a length or the like.
    of: Option<ColumnType>,
    /// The value as one of the domain, which fails where it is none.
    value: Option<RowExpr>,
}

impl DomainParams {
    /// Those of a statement that was analysed; `None`: there are none.
    pub(crate) fn of(names: &Names<'_>, params: &ParamTypes) -> Option<Arc<Self>> {
        // Of a function's body they are the function's.
        if params.body.is_some() || params.domains.iter().all(|domain| *domain == 0) {
            return None;
        }
        let mut demands = Vec::new();
        for (at, domain) in params.domains.iter().copied().enumerate().filter(|(_, domain)| *domain != 0) {
            let (oid, typmod) = base_type(domain, -1);
            let of = if typmod >= 0 { column_type_of_oid(oid, typmod) } else { None };
            let value = match constraints(domain).is_empty() {
                true => None,
                false => value_of(names, at, domain),
            };
            demands.push(Demand { at, of, value });
        }
        Some(Arc::new(Self { domains: params.domains.clone(), demands }))
    }

    /// The types of the parameters as clients are told, of these as they are read.
    pub(crate) fn described(&self, oids: &[u32]) -> Vec<u32> {
        let of = |(oid, domain): (&u32, &u32)| if *domain == 0 { *oid } else { *domain };
        oids.iter().zip(&self.domains).map(of).collect()
    }

    /// Asks what there is to be asked of the values of all parameters.
    ///
    /// # Errors
    /// `23514` and `23502` of a domain's constraints; `22001` and `22003` of what it is of.
    pub(crate) fn check(&self, values: &[ScalarValue], zone: &Zone) -> Result<(), SqlError> {
        for Demand { at, of, value } in &self.demands {
            if let (Some(of), Some(value)) = (of, values.get(*at)) {
                datum_of_scalar(value, of, zone)?;
            }
            if let Some(value) = value {
                value.evaluate(Input { params: values, row: None })?;
            }
        }
        Ok(())
    }
}

/// A parameter as a value of its domain; `None`: it takes more than the value to say.
fn value_of(names: &Names<'_>, at: usize, domain: u32) -> Option<RowExpr> {
    let empty = DFSchema::empty();
    let expr = parameter_of_domain(names, at, domain).ok()?;
    let ready = as_in_plan(names.state, expr, &empty).and_then(|expr| simplified(names.state, expr, &empty)).ok()?;
    RowExpr::new(&ready, None, &empty)
}

//! A scan below a chain of filters and projections, which keep its order.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_plan::execution_plan::ChildrenPropertiesMode;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, ReplaceChildrenOptions};

use crate::exec::measured;
use crate::exec::paced::PacedExec;
use crate::exec::scan::ScanExec;

pub(crate) type Plan = Arc<dyn ExecutionPlan>;

/// The only child of an operator that keeps its input's order, and takes all of it.
pub(crate) fn input_in_order(plan: &Plan) -> Option<&Plan> {
    let keeps = plan.is::<FilterExec>() || plan.is::<ProjectionExec>() || plan.is::<PacedExec>();
    match plan.children().as_slice() {
        [child] if keeps && plan.fetch().is_none() => Some(child),
        _ => None,
    }
}

/// The scan at the end of a chain of filters and projections.
pub(crate) fn scan_below(plan: &Plan) -> Option<&ScanExec> {
    match plan.downcast_ref::<ScanExec>() {
        Some(scan) => scan.fetch().is_none().then_some(scan),
        None => scan_below(input_in_order(plan)?),
    }
}

/// Such a chain with another scan, whose properties are those of the old one (`Keep`) or not.
pub(crate) fn with_scan(plan: &Plan, scan: Plan, mode: ChildrenPropertiesMode) -> Result<Plan> {
    match input_in_order(plan) {
        Some(child) => {
            let children = vec![with_scan(child, scan, mode)?];
            Arc::clone(plan).replace_children(children, ReplaceChildrenOptions::new(mode))
        }
        None => Ok(measured::in_place_of(plan, scan)),
    }
}

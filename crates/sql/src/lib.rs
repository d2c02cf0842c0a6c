//! SQL over the engine, planned by Apache DataFusion

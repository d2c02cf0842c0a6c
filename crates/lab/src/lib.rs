//! Experiments and measurements

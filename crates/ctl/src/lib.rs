//! Read-only printers and checkers of pages, log and catalog

//! The rules of sections 1 to 6 and 8, one table each, through the public API. What is expected is
//! what the specification says, not what the code does; test names begin with the rule's id.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod rules_support;

#[path = "rules_table/answers.rs"]
mod answers;
#[path = "rules_table/cap.rs"]
mod cap;
#[path = "rules_table/disclosure.rs"]
mod disclosure;
#[path = "rules_table/edges.rs"]
mod edges;
#[path = "rules_table/faults.rs"]
mod faults;
#[path = "rules_table/oracle.rs"]
mod oracle;
#[path = "rules_table/requests.rs"]
mod requests;

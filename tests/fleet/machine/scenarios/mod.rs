//! Numbered acceptance scenarios of an orchestrator, played on the machine alone; the number is in
//! the name of the test.

mod recovery;

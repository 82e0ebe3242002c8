//! Every seed through the function of its target, in one thread, as the fuzzer would run it: none may panic or ask for too much memory.

use std::path::Path;
use triune_fuzz::{TARGETS, run};

#[test]
fn every_seed_is_read_or_refused() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (name, target) in TARGETS {
        let mut count = 0;
        for entry in std::fs::read_dir(seeds.join(name)).unwrap_or_else(|e| panic!("the seeds of {name}: {e}")) {
            let path = entry.expect("it can be listed").path();
            // The name stands in the output when the process is ended by what the seed does.
            println!("{}", path.display());
            run(target, &std::fs::read(&path).expect("it can be read"));
            count += 1;
        }
        assert!(count > 0, "{name} has seeds");
    }
}

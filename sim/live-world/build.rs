//! Builds the library that is loaded into the servers picklock starts; see `native/preload.c`.
//!
//! Invariant: picklock builds wherever there is a C compiler, which Lua needs as well. Deliberately absent: any
//! other system than Linux, where there is no such library and what needs it says so.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=native/preload.c");
    println!("cargo::rerun-if-changed=build.rs");
    let into = PathBuf::from(env::var_os("OUT_DIR").expect("cargo says where")).join("preload.so");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        std::fs::write(into, []).expect("cargo's own directory can be written to");
        return;
    }
    let mut compiler = cc::Build::new().opt_level(2).pic(true).get_compiler().to_command();
    // Linked with no C library: the server's may be another than picklock's, whose may be static.
    compiler.args(["-shared", "-nostdlib", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-o"]);
    let status = compiler.arg(&into).arg("native/preload.c").status();
    assert!(status.is_ok_and(|status| status.success()), "native/preload.c cannot be built");
}

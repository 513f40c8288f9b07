//! Hands the linker script to the linker.

fn main() {
    let script = format!("{}/image.ld", std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    println!("cargo::rerun-if-changed={script}");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo::rustc-link-arg-bins=-T{script}");
        println!("cargo::rustc-link-arg-bins=--gc-sections");
        println!("cargo::rustc-link-arg-bins=-zmax-page-size=4096");
        println!("cargo::rustc-link-arg-bins=--no-pie");
    }
}

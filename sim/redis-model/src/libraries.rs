//! The libraries of functions that FUNCTION LOAD has brought.
//!
//! Invariant: a function's name stands for one function in all libraries, in any case of its letters. Here
//! is what can be asked of them; what they do is compiled by `script::functions` when it is needed. Not
//! modelled: their way to replicas and to the append-only file.

use std::collections::BTreeMap;

use resp::Blob;

/// A function as it was registered.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) name: Blob,
    pub(crate) description: Option<Blob>,
    /// The flags by name, in the order of [`FLAGS`].
    pub(crate) flags: Vec<&'static str>,
}

/// What a function can promise.
pub(crate) const FLAGS: [&str; 5] =
    ["no-writes", "allow-oom", "allow-stale", "no-cluster", "allow-cross-slot-keys"];

impl Function {
    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.contains(&flag)
    }
}

/// A library.
#[derive(Clone, Debug)]
pub(crate) struct Library {
    pub(crate) code: Vec<u8>,
    /// The SHA-1 of the code, under which it is compiled.
    pub(crate) digest: [u8; 40],
    pub(crate) functions: Vec<Function>,
}

/// All libraries by name.
pub(crate) type Libraries = BTreeMap<Blob, Library>;

/// A function and its library; libraries of the name `except` are passed over.
pub(crate) fn find<'l>(
    libraries: &'l Libraries,
    name: &[u8],
    except: Option<&[u8]>,
) -> Option<(&'l Library, &'l Function)> {
    let libraries = libraries.iter().filter(|(library, _)| except != Some(&library[..]));
    let mut all = libraries
        .flat_map(|(_, library)| library.functions.iter().map(move |function| (library, function)));
    all.find(|(_, function)| function.name.eq_ignore_ascii_case(name))
}

/// How many functions they have together.
pub(crate) fn function_count(libraries: &Libraries) -> usize {
    libraries.values().map(|library| library.functions.len()).sum()
}

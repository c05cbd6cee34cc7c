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
#[derive(Clone, Debug, Default)]
pub(crate) struct Libraries {
    by_name: BTreeMap<Blob, Library>,
}

impl Libraries {
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn clear(&mut self) {
        self.by_name.clear();
    }

    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.by_name.contains_key(name)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Blob, &Library)> {
        self.by_name.iter()
    }

    pub(crate) fn functions(&self) -> impl Iterator<Item = &Function> {
        self.by_name.values().flat_map(|library| &library.functions)
    }

    /// Puts a library in the place of one of this name.
    pub(crate) fn put(&mut self, name: Blob, library: Library) {
        self.by_name.insert(name, library);
    }

    /// Whether there was one.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        self.by_name.remove(name).is_some()
    }

    /// A function and its library; libraries of the name `except` are passed over.
    pub(crate) fn find(&self, name: &[u8], except: Option<&[u8]>) -> Option<(&Library, &Function)> {
        let libraries = self.by_name.iter().filter(|(library, _)| except != Some(&library[..]));
        let mut all = libraries.flat_map(|(_, library)| {
            library.functions.iter().map(move |function| (library, function))
        });
        all.find(|(_, function)| function.name.eq_ignore_ascii_case(name))
    }
}

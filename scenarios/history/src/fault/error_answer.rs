//! Errors that a server may answer any command with: some pass by themselves, others stay until somebody acts.

use serde::{Deserialize, Serialize};

/// A row is an error: its name in a scenario, and how redis-server words it.
macro_rules! error_answers {
    ($($kind:ident $name:literal $text:literal,)+) => {
        /// What a server answers in the place of carrying a command out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "each is named as Redis names it")]
        pub enum ErrorAnswer { $(#[serde(rename = $name)] $kind,)+ }

        impl ErrorAnswer {
            /// Every one.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$kind),+];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// The one of this answer, by its first word.
            pub fn of(answer: &str) -> Option<Self> {
                let (code, _) = answer.split_once(' ').unwrap_or((answer, ""));
                let is_code = |text: &str| text.strip_prefix(code).is_some_and(|it| it.starts_with(' '));
                Self::ALL.into_iter().find(|it| is_code(it.text()))
            }

            /// Whether time does not change it: the client may not do what it asks for.
            pub const fn is_final(self) -> bool {
                matches!(self, Self::Noauth | Self::Noperm | Self::Wrongpass)
            }

            /// The whole answer.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$kind => $text,)+ }
            }
        }
    };
}

error_answers! {
    Loading "loading" "LOADING Redis is loading the dataset in memory",
    Readonly "readonly" "READONLY You can't write against a read only replica.",
    Oom "oom" "OOM command not allowed when used memory > 'maxmemory'.",
    Busy "busy" "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
    Noscript "noscript" "NOSCRIPT No matching script. Please use EVAL.",
    Misconf "misconf" "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
    Clusterdown "clusterdown" "CLUSTERDOWN The cluster is down",
    Tryagain "tryagain" "TRYAGAIN Multiple keys request during rehashing of slot",
    Noauth "noauth" "NOAUTH Authentication required.",
    Noperm "noperm" "NOPERM this user has no permissions to access one of the keys used as arguments",
    Wrongpass "wrongpass" "WRONGPASS invalid username-password pair or user is disabled.",
}

//! Of several servers: what they are called, and which of them showed the same.
//!
//! Invariant: two servers never have one name, and what is said of one server alone names none.

use scenarios::matrix::Matrix;

/// What each is called: software and version, as in `valkey 9.1.2`, or all that is known of it where
/// another is called so, too.
pub(crate) fn names(matrices: &[Matrix]) -> Vec<&str> {
    let is_taken = |name: &str| matrices.iter().filter(|it| short(whole(it)) == name).count() > 1;
    let name = |it| match whole(it) {
        text if is_taken(short(text)) => text,
        text => short(text),
    };
    matrices.iter().map(name).collect()
}

fn whole(matrix: &Matrix) -> &str {
    matrix.server.as_deref().unwrap_or(&matrix.world)
}

fn short(text: &str) -> &str {
    text.split_once(", ").map_or(text, |(short, _)| short)
}

/// Something that is said of each of them, those together of which the same is said: on which, as a reader
/// may be told it, and what. Where there is one there is nobody to tell it from.
pub(crate) fn alike<T: PartialEq>(
    matrices: &[Matrix],
    said: impl Fn(&Matrix) -> T,
) -> Vec<(Option<String>, T)> {
    let mut groups: Vec<(Vec<&str>, T)> = Vec::new();
    for (matrix, name) in matrices.iter().zip(names(matrices)) {
        let what = said(matrix);
        match groups.iter_mut().find(|(_, known)| *known == what) {
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], what)),
        }
    }
    let on = |names: Vec<&str>| match matrices.len() {
        1 => None,
        all if all == names.len() => Some(format!("on all {all} servers")),
        _ => Some(format!("on {}", names.join(", "))),
    };
    groups.into_iter().map(|(names, what)| (on(names), what)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(servers: &[&str]) -> Vec<Matrix> {
        let matrix = |it: &&str| Matrix::new("redis", Some((*it).to_owned()), Vec::new(), false);
        servers.iter().map(matrix).collect()
    }

    #[test]
    fn servers_are_called_what_tells_them_apart() {
        let found = of(&["redis 7.0.15, at a", "valkey 9.1.2, at b", "redis 7.0.15, at c"]);
        assert_eq!(names(&found), ["redis 7.0.15, at a", "valkey 9.1.2", "redis 7.0.15, at c"]);
        assert_eq!(names(&of(&["redis 7.0.15, at a", "b"])), ["redis 7.0.15", "b"]);
    }

    #[test]
    fn servers_of_which_the_same_is_said_stand_together() {
        let found = of(&["a 1, x", "b 1, x", "a 2, y"]);
        let on = |text: &str| Some(text.to_owned());
        let first = |it: &Matrix| it.server.as_ref().unwrap()[..1].to_owned();
        let expected = [(on("on a 1, a 2"), "a".to_owned()), (on("on b 1"), "b".to_owned())];
        assert_eq!(alike(&found, first), expected);
        assert_eq!(alike(&found, |_| 7), [(on("on all 3 servers"), 7)]);
        assert_eq!(alike(&found[..1], |_| 7), [(None, 7)]);
    }
}

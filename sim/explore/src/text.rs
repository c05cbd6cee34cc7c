//! The text of a counterexample, without lines that only state defaults.
//!
//! Invariant: the shortened text reads back as the same scenario; otherwise the text is left as it was.

/// Tables that are written as a line of the table above them.
const INLINE: [&str; 4] = ["fault.at", "fault.until", "network.latency", "network.link.latency"];

/// How the only line of a distribution with one value begins.
const CONSTANT: &str = "constant = ";

/// The text with as few lines as possible that still say the same, by this test.
pub(crate) fn shortened(text: &str, says_the_same: impl Fn(&str) -> bool) -> String {
    let inlined = inlined(text);
    let mut lines: Vec<&str> =
        if says_the_same(&inlined) { inlined.lines() } else { text.lines() }.collect();
    let count = lines.len();
    let heads: Vec<usize> = (0..count).filter(|nth| lines[*nth].starts_with('[')).collect();
    let mut without = |places: std::ops::Range<usize>| {
        let taken: Vec<&str> = lines[places.clone()].to_vec();
        lines[places.clone()].fill("");
        if !says_the_same(&lines.join("\n")) {
            lines[places].copy_from_slice(&taken);
        }
    };
    // Whole tables first, then single lines; from the end, so that a table is empty when its head comes up.
    let mut end = count;
    for head in heads.into_iter().rev() {
        without(head..end);
        end = head;
    }
    (0..count).rev().for_each(|nth| without(nth..nth + 1));
    // A line that was taken out leaves an empty one.
    lines.dedup_by(|next, line| next.is_empty() && line.is_empty());
    let short = without_gaps(&lines);
    if says_the_same(&short) { short } else { text.to_owned() }
}

/// The text with short tables as lines of the table above.
fn inlined(text: &str) -> String {
    let mut blocks: Vec<(String, Vec<String>)> = vec![(String::new(), Vec::new())];
    for line in text.lines() {
        match line.starts_with('[') {
            true => blocks.push((line.to_owned(), Vec::new())),
            false => blocks.last_mut().expect("there is a first").1.push(line.to_owned()),
        }
    }
    let mut whole: Vec<(String, Vec<String>)> = Vec::new();
    for (head, lines) in blocks {
        let path = head.trim_matches(['[', ']']);
        let Some((above, name)) = path.rsplit_once('.').filter(|_| INLINE.contains(&path)) else {
            whole.push((head, lines));
            continue;
        };
        let values: Vec<&str> =
            lines.iter().map(String::as_str).filter(|it| !it.is_empty()).collect();
        let line = match values[..] {
            // A duration that is always the same needs no table.
            [value] if value.starts_with(CONSTANT) => {
                format!("{name} = {}", &value[CONSTANT.len()..])
            }
            _ => format!("{name} = {{ {} }}", values.join(", ")),
        };
        match whole.last_mut() {
            Some((last, lines)) if last.trim_matches(['[', ']']) == above => {
                while lines.last().is_some_and(String::is_empty) {
                    lines.pop();
                }
                lines.extend([line, String::new()]);
            }
            _ => whole.push((format!("[{above}]"), vec![line, String::new()])),
        }
    }
    let lines = whole.into_iter().flat_map(|(head, lines)| {
        let head = (!head.is_empty()).then_some(head);
        head.into_iter().chain(lines)
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The lines with one empty line before each table, and none elsewhere but in a text of several lines.
fn without_gaps(lines: &[&str]) -> String {
    let mut text = String::new();
    let mut is_text = false;
    for line in lines {
        if line.matches("\"\"\"").count() == 1 {
            is_text = !is_text;
        }
        if line.starts_with('[') && !text.is_empty() {
            text.push('\n');
        }
        if !line.is_empty() || is_text {
            text += line;
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "a = 1\nb = 2\n\n[network.latency]\nconstant = \"2ms\"\n\n[[fault]]\nkind = \"pause\"\n\n\
                        [fault.at]\nphase = \"hold\"\nnth = 2\n\n[swarm]\ncrash = 0.0\n";

    #[test]
    fn what_says_nothing_is_left_out_and_short_tables_become_lines() {
        let needed =
            ["a = 1", "[network]", "2ms", "[[fault]]", "pause", "phase = \"hold\", nth = 2"];
        let short = shortened(LONG, |text| needed.iter().all(|it| text.contains(it)));
        let lines = "a = 1\n\n[network]\nlatency = \"2ms\"\n\n[[fault]]\nkind = \"pause\"\n\
                     at = { phase = \"hold\", nth = 2 }\n";
        assert_eq!(short, lines);
    }

    #[test]
    fn a_text_that_cannot_be_shorter_stays() {
        assert_eq!(shortened(LONG, |text| text == LONG), LONG);
        let story = "story = \"\"\"\none\n\ntwo\n\"\"\"\n\n[lock]\nttl = 1\n";
        assert_eq!(
            shortened(story, |text| text.contains("one\n\ntwo") && text.contains("ttl")),
            "story = \"\"\"\none\n\ntwo\n\"\"\"\n\n[lock]\nttl = 1\n"
        );
    }
}

//! What every page stands in: its head, and how it looks on a screen by day and by night, on a telephone, on paper.
//!
//! Invariant: no script runs and nothing is fetched, whatever a text on the page says: its policy forbids both. Every colour is a variable with a light and a dark value, and text on it keeps a
//! contrast of at least 4.5 to 1. Charts bring their own colours for both.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The page with this title and this body.
pub fn document(title: &str, body: &Markup) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    markup.into_string()
}

/// What a browser may do with a page: show it with its own style sheet, and nothing else.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The style sheet.
const STYLE: &str = r"
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --ink: #1c1f24; --faint: #59616d; --rule: #dfe3e8; --code: #eef0f3;
  --link: #0b5cad; --held: #17653b; --held-on: #dff3e7; --violated: #a4161a; --violated-on: #fde4e3;
  --violated-dot: #b4142d;
  --inconclusive: #7a4b00; --inconclusive-on: #fdf0d0; --na: #59616d; --na-on: #e9ecf0;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --card: #1c2026; --ink: #e6e9ed; --faint: #a0a8b4; --rule: #343a43;
    --code: #262b33; --link: #7fb8f5; --held: #8fdcae; --held-on: #163825; --violated: #ffb3ae;
    --violated-on: #4d1a1b; --violated-dot: #ff6b78; --inconclusive: #f5cf7a; --inconclusive-on: #43330f; --na: #b4bbc6;
    --na-on: #2e343d;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif;
}
header, main { max-width: 62rem; margin: 0 auto; padding: 0 1.25rem; }
body:has(.matrix) :is(header, main) { max-width: 72rem; }
header { padding-top: 2.25rem; }
main { padding-bottom: 3rem; }
h1 { margin: 0; font-size: 1.9rem; line-height: 1.2; overflow-wrap: anywhere; }
h1 .badge { vertical-align: .2em; margin-left: .4rem; }
h2 { margin: 0 0 .8rem; font-size: 1.2rem; line-height: 1.3; }
h3 { margin: 0 0 .4rem; font-size: 1.02rem; }
p { margin: 0 0 .8rem; }
.summary { display: flex; flex-wrap: wrap; gap: .4rem 1.4rem; margin: 0 0 1.5rem; }
.lead { margin: .5rem 0 .8rem; color: var(--faint); overflow-wrap: anywhere; }
section {
  margin-top: 1.25rem; padding: 1.25rem 1.4rem; background: var(--card);
  border: 1px solid var(--rule); border-radius: .6rem;
}
section.alert { border-left: .35rem solid var(--inconclusive); }
a { color: var(--link); }
.badge {
  display: inline-block; padding: .1rem .6rem; border-radius: 1rem; white-space: nowrap;
  font-size: .85rem; font-weight: 600; line-height: 1.5;
}
.held { color: var(--held); background: var(--held-on); }
.violated { color: var(--violated); background: var(--violated-on); }
.inconclusive { color: var(--inconclusive); background: var(--inconclusive-on); }
.na { color: var(--na); background: var(--na-on); }
.scroll { overflow-x: auto; --shade: color-mix(in srgb, var(--ink) 28%, transparent);
  background:
    linear-gradient(to right, var(--card) 40%, transparent) left / 2.4rem 100% no-repeat local,
    linear-gradient(to left, var(--card) 40%, transparent) right / 2.4rem 100% no-repeat local,
    linear-gradient(to right, var(--shade), transparent) left / .8rem 100% no-repeat,
    linear-gradient(to left, var(--shade), transparent) right / .8rem 100% no-repeat;
}
:is(.scroll, .story, ul) + :is(p, pre) { margin-top: .8rem; }
.scroll:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
table { width: 100%; border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .7rem .38rem 0; text-align: left; vertical-align: top; }
th:last-child, td:last-child { padding-right: 0; }
thead th { color: var(--faint); font-size: .85rem; font-weight: 600; }
tbody tr { border-top: 1px solid var(--rule); }
tbody th { font-weight: 500; overflow-wrap: break-word; }
.level th, .level td { padding-top: .7rem; }
.level th { font-weight: 700; }
.levels tbody tr:not(.level) { border-top: 0; }
.levels tbody tr:not(.level) th { padding-left: 1rem; }
.levels tbody tr:last-child th, .levels tbody tr:last-child td { padding-bottom: .7rem; }
.story table { width: auto; }
.number, .time { text-align: right; white-space: nowrap; }
thead .number { white-space: normal; }
.time, .who { padding-right: 1.1rem; white-space: nowrap; }
.time { color: var(--faint); }
.story { margin-top: 1.1rem; padding-left: 1rem; border-left: .25rem solid var(--violated); }
.story:first-of-type { margin-top: 0; }
.settings td.number, .settings th.number { text-align: left; padding-right: 1.1rem; }
.settings td.share { min-width: 10rem; }
.settings td.delay { min-width: 5.4rem; }
.inputs th { min-width: 9rem; }
.chosen { background: var(--code); font-weight: 600; }
.chosen.met { background: var(--held-on); color: var(--held); }
.chosen td:first-child { padding-left: .4rem; }
.heat td { padding-left: .5rem; }
.heat .heat-1 { background: color-mix(in srgb, var(--violated-on) 35%, transparent); }
.heat .heat-2 { background: color-mix(in srgb, var(--violated-on) 65%, transparent); }
.heat .heat-3 { background: var(--violated-on); }
.heat .heat-4 { background: var(--violated-on); box-shadow: inset .25rem 0 var(--violated); }
.matrix { max-height: 85vh; overflow: auto; }
.matrix table { width: auto; border-collapse: separate; border-spacing: 0; }
.matrix td, .matrix th { padding: .1rem .15rem; }
.matrix tbody th, .matrix thead td {
  position: sticky; left: 0; z-index: 1; padding-right: .8rem; background: var(--card); white-space: nowrap;
}
.matrix thead th, .matrix thead td { position: sticky; top: 0; background: var(--card); vertical-align: bottom; }
.matrix thead td { z-index: 2; }
.matrix .lock span { writing-mode: vertical-rl; transform: rotate(180deg); padding: .3rem 0; }
.matrix .flawed { font-style: italic; }
.cell { display: grid; grid-template-columns: .65rem .65rem; gap: .12rem; padding: .16rem; border-radius: .2rem; }
.cell:hover, .cell:focus-visible { background: var(--code); outline: 2px solid var(--link); }
.cell:empty { width: 1.7rem; height: 1.7rem; }
.dot { display: inline-block; width: .65rem; height: .65rem; border-radius: .1rem; }
.dot.held { background: var(--held-on); border: 1px solid var(--held); border-radius: 50%; }
.dot.violated { background: var(--violated-dot); }
.dot.unclaimed { border: 2px solid var(--violated-dot); }
.dot.unknown {
  border: 1px solid var(--inconclusive);
  background: linear-gradient(135deg, var(--inconclusive) 50%, transparent 50%);
}
.dot.open::before { content: ''; display: block; width: .2rem; height: .2rem; margin: .22rem; border-radius: 50%; background: var(--faint); }
.dot.other { outline: 2px solid var(--ink); }
.looks span { display: inline-block; margin-right: 1rem; white-space: nowrap; }
.pair:not(:target) { display: none; }
.pair pre, .told pre { margin-bottom: 1rem; }
.told { margin-top: 1.4rem; padding-top: 1.4rem; border-top: 1px solid var(--rule); }
.pair .faint { margin-top: .6rem; }
details { margin-top: 1rem; }
summary { cursor: pointer; color: var(--link); padding: .3rem 0; }
.faint { color: var(--faint); }
figure { position: relative; margin: 0 0 1.2rem; padding: .5rem; border: 1px solid var(--rule); border-radius: .4rem; }
figure:last-child { margin-bottom: 0; }
figure svg { display: block; width: 100%; height: auto; }
figure.narrow { display: none; max-width: 28rem; padding: 0; border: 0; }
figure.only .view { overflow: auto; }
figure.only svg { min-width: 40rem; }
figure > input { position: absolute; opacity: 0; }
figure > label {
  display: inline-block; margin: 0 .3rem .4rem 0; padding: 0 .6rem; border: 1px solid var(--rule); border-radius: 1rem;
  color: var(--faint); font-size: .8rem; cursor: pointer;
}
figure > input:checked + label { background: var(--code); color: var(--ink); }
figure > input:focus-visible + label { outline: 2px solid var(--link); outline-offset: 1px; }
.zoom-2:checked ~ .view, .zoom-4:checked ~ .view { overflow: auto; max-height: 85vh; }
.zoom-2:checked ~ .view svg { width: 200%; }
.zoom-4:checked ~ .view svg { width: 400%; }
.view:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.4rem; margin: 0; }
dt { color: var(--faint); }
dd { margin: 0; overflow-wrap: anywhere; }
pre {
  margin: 0; padding: .8rem 1rem; background: var(--code); border-radius: .4rem;
  white-space: pre-wrap; overflow-wrap: anywhere;
  font: .92rem/1.5 ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace;
}
ul { margin: 0; padding-left: 1.2rem; }
.files { columns: 14rem; }
@media (max-width: 36rem) {
  header, main { padding-left: .8rem; padding-right: .8rem; }
  section { padding: 1rem; }
  dl { grid-template-columns: 1fr; gap: 0; }
  dd { margin-bottom: .5rem; }
  .story { padding-left: .7rem; }
  th, td { padding-right: .5rem; }
  .scroll > table:not(.levels) { font-size: .9rem; }
  .levels thead, .story thead { position: absolute; clip-path: inset(50%); }
  .levels tr { display: grid; grid-template-columns: 1fr max-content; }
  .levels tbody { border-top: 1px solid var(--rule); }
  .levels tbody tr.level { border-top: 0; }
  .levels td:last-child { grid-column: 1 / -1; padding-left: 1rem; padding-top: 0; }
  .levels td:last-child:empty { padding: 0; }
  .story tr { display: grid; grid-template-columns: 1.6rem max-content 1fr; }
  .story td { padding-bottom: 0; }
  .story td.time { text-align: left; padding-right: .8rem; }
  .story .all tr { grid-template-columns: max-content 1fr; }
  .story td:last-child { grid-column: 1 / -1; padding-top: 0; padding-bottom: .4rem; }
  .inputs thead { position: absolute; clip-path: inset(50%); }
  .inputs tr { display: block; padding: .4rem 0; }
  .inputs :is(th, td) { display: block; padding: .1rem 0; overflow-wrap: anywhere; }
  .latencies thead { position: absolute; clip-path: inset(50%); }
  .latencies tr { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); padding: .4rem 0; }
  .latencies td:has(.badge) { grid-column: 1 / -1; }
  .latencies th { grid-column: 1 / -1; padding-bottom: 0; }
  .latencies td.wide { grid-column: span 2; }
  .latencies td:empty { display: none; }
  .latencies td.number { text-align: left; padding-bottom: 0; }
  .latencies td::before { content: attr(data-name); display: block; color: var(--faint); font-size: .8rem; }
}
@media (max-width: 44rem) {
  figure.only::after { content: 'The drawing scrolls sideways.'; color: var(--faint); font-size: .8rem; }
}
@media (max-width: 52rem) {
  figure.wide { display: none; }
  figure.narrow { display: block; }
}
@media print {
  body { background: #fff; }
  section { break-inside: avoid; border: 0; padding: 0; }
  figure > label { display: none; }
  .pair:not(:target) { display: block; }
  .matrix { max-height: none; }
}
";

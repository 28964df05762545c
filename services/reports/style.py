"""The report's style sheet: system fonts, light and dark, printable."""

STYLE = """
:root {
  color-scheme: light dark;
  --ink: #1f2430; --quiet: #6b7280; --line: #e5e7eb; --paper: #ffffff; --tint: #eff6ff;
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e5e7eb; --quiet: #9ca3af; --line: #374151; --paper: #111827; --tint: #1e293b; }
}
body { margin: 0; background: var(--paper); color: var(--ink); font: 15px/1.55 system-ui, sans-serif; }
main { max-width: 66rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
.lead { font-size: 1.05rem; }
.note, figcaption { color: var(--quiet); font-size: .87rem; }
figure { margin: 1rem 0; }
img { max-width: 100%; height: auto; background: #ffffff; border-radius: 4px; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; margin: .75rem 0; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { font-weight: 600; font-size: .87rem; color: var(--quiet); }
th.number, td.number { text-align: right; }
td.number { white-space: nowrap; }
tr.strong { font-weight: 600; background: var(--tint); }
pre { background: var(--tint); padding: .75rem 1rem; overflow-x: auto; border-radius: 4px; font-size: .85rem; }
"""

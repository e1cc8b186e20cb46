// The style that the widgets share. A page can change the colours with the properties `--card`, `--ink` and so on, and
// style single parts with ::part().

export const STYLE = `
:host {
  --h-card: var(--card, light-dark(#fff, #171d1a)); --h-ink: var(--ink, light-dark(#17201c, #e6edea));
  --h-quiet: var(--quiet, light-dark(#56635d, #9daba5)); --h-line: var(--line, light-dark(#dfe5e2, #29322e));
  --h-accent: var(--accent, light-dark(#08764f, #4fd8a4)); --h-accent-ink: var(--accent-ink, light-dark(#fff, #06251a));
  --h-tint: var(--tint, light-dark(#e6f3ed, #1a2f27)); --h-warn: var(--warn, light-dark(#7a4200, #ffcf8f));
  --h-warn-ground: var(--warn-ground, light-dark(#fff3e0, #33240f)); --h-flash: var(--flash, light-dark(#bdebd6, #1f5a44));
  --h-star: var(--star, light-dark(#b26a00, #f0b45a)); --h-edge: var(--edge, light-dark(#8a9891, #74827b));
  --h-bars: var(--views, light-dark(#8fcdb4, #24704f)); --h-darker: var(--visitors, light-dark(#2f8f6b, #63c79d));
  display: block; padding: 16px; border: 1px solid var(--h-line); border-radius: 12px;
  background: var(--h-card); color: var(--h-ink); font: 15px/1.45 system-ui, sans-serif; overflow-wrap: anywhere;
}
:host([hidden]), [hidden] { display: none !important; }
* { box-sizing: border-box; }
.root { position: relative; display: grid; grid-template-columns: minmax(0, 1fr); gap: 10px; align-content: start; }
h3, p, ol, ul, dl, dd, fieldset { margin: 0; padding: 0; border: 0; list-style: none; }
h3 { min-height: 1.3em; font-size: 16px; line-height: 1.3; }
h3:empty { visibility: hidden; }
p:empty { display: none; }
.quiet { color: var(--h-quiet); font-size: 13px; font-weight: 400; }
.row { display: flex; flex-wrap: wrap; align-items: center; gap: 8px; }
form.row { align-items: end; }
.hidden { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
:focus-visible { outline: 2px solid var(--h-accent); outline-offset: 2px; }
button, input, textarea, select { font: inherit; color: inherit; background: var(--h-card); border: 1px solid var(--h-edge); border-radius: 8px; }
input { min-height: 34px; min-width: 0; padding: 4px 10px; }
label { color: var(--h-quiet); font-size: 13px; }
label.grow { display: grid; gap: 2px; }
label input, label textarea { color: var(--h-ink); font-size: 15px; }
.grow { flex: 1 1 12rem; }
button { min-height: 34px; padding: 4px 12px; cursor: pointer; }
button:hover { background: var(--h-tint); }
button.primary { border-color: var(--h-accent); background: var(--h-accent); color: var(--h-accent-ink); font-weight: 600; }
button.link { min-height: 24px; padding: 0 4px; border: 0; background: none; text-decoration: underline; font-size: 13px; }
button:disabled, button[aria-disabled=true] { opacity: .55; cursor: default; }
table { width: 100%; border-collapse: collapse; }
caption { padding-bottom: 4px; font-weight: 600; text-align: start; }
th { padding: 4px 8px; color: var(--h-quiet); font-size: 13px; font-weight: 400; text-align: start; }
td { padding: 5px 8px; border-top: 1px solid var(--h-line); }
th.number, td.number { width: 1%; text-align: end; font-variant-numeric: tabular-nums; white-space: nowrap; }
.name { display: -webkit-box; overflow: hidden; -webkit-box-orient: vertical; -webkit-line-clamp: 3; }
td .quiet { white-space: nowrap; }
@media (max-width: 400px) { th, td { padding-inline: 4px; } }
tr.mine { background: var(--h-tint); font-weight: 600; }
[part=state] { padding: 8px 12px; border-radius: 8px; color: var(--h-quiet); }
:host([data-state=loading]) [part=state] { position: absolute; inset: 40% 0 auto; padding: 0; text-align: center; }
:host([data-state=error]) [part=state], :host([data-state=offline]) [part=state], .problem { padding: 8px 12px; border-radius: 8px; background: var(--h-warn-ground); color: var(--h-warn); }
@media (prefers-reduced-motion: no-preference) { .changed { animation: changed 1.2s ease-out; } }
@keyframes changed { from { background: var(--h-flash); } }
`;

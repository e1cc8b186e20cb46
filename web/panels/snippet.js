// The few lines that put a feature on a page, with a button that copies them.

import { words } from "../lib/words.js";
import { html } from "../vendor/lit.js";

const SHOWN = 2000; // ms for which the button confirms

/** Render lines of code. */
export function snippet(text) {
  return html`<figure class="snippet">
    <figcaption>${words.panel.lines}<button type="button" class="copy" @click=${(event) => copy(event.target, text)}>${
      words.panel.copy}</button></figcaption>
    <pre tabindex="0" aria-label=${words.panel.lines}><code>${text}</code></pre></figure>`;
}

async function copy(button, text) {
  await navigator.clipboard.writeText(text).then(
    () => { button.textContent = words.panel.copied; },
    () => getSelection().selectAllChildren(button.closest("figure").querySelector("code")), // the browser forbids it
  );
  setTimeout(() => { button.textContent = words.panel.copy; }, SHOWN);
}

// What the headers of all pages share: the choice of the language, and the link that skips the header.

import { html } from "../vendor/lit.js";
import { language, LANGUAGES, useLanguage } from "./language.js";
import { words } from "./words.js";

/** Render the choice of the language. */
export function languageChoice() {
  return html`<label class="language"><span class="hidden">${words.language}</span>
    <select id="language" @change=${(event) => useLanguage(event.target.value)}>
      ${Object.entries(LANGUAGES).map(([tag, name]) => html`<option value=${tag} lang=${tag}
        ?selected=${tag === language} aria-label=${name}>${tag.toUpperCase()}</option>`)}
    </select></label>`;
}

/** Write the link that skips the header in the page's language. */
export function showSkipLink() {
  document.querySelector(".skip").textContent = words.skip;
}

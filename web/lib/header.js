// What the headers of all pages share: the choice of the language, and the link that skips the header.

import { make } from "./dom.js";
import { language, LANGUAGES, useLanguage } from "./language.js";
import { words } from "./words.js";

/** Write the choice of the language and the link that skips the header. */
export function showHeader() {
  const options = Object.entries(LANGUAGES).map(([tag, name]) => make(
    "option", { value: tag, lang: tag, selected: tag === language, ariaLabel: name }, tag.toUpperCase(),
  ));
  const choice = make("select", { id: "language", onchange: ({ target }) => useLanguage(target.value) }, ...options);
  const label = make("label", { className: "language" }, make("span", { className: "hidden" }, words.language), choice);
  document.getElementById("choices").replaceChildren(label);
  document.querySelector(".skip").textContent = words.skip;
}

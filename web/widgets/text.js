// A text that a visitor wrote: paragraphs are paragraphs and links are links. Nothing else has a meaning.

import { make } from "../lib/dom.js";

const LINK = /https?:\/\/[^\s<>"]+/gi;

/** Create the element of a text in its language. */
export const paragraphs = ({ text, language }) =>
  make("div", { part: "text", lang: language, dir: "auto" }, ...text.split(/\n{2,}/).map((part) => make("p", {}, ...linked(part))));

/** Return a text as strings and links. Punctuation after an address, and a bracket around it, are not of it. */
function linked(text) {
  const parts = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(LINK)) {
    let href = found.replace(/[.,;:!?'"’”»…*_]+$/, "");
    while (/[)\]}]$/.test(href) && href.split(/[([{]/).length < href.split(/[)\]}]/).length) href = href.slice(0, -1).replace(/[.,;:!?]+$/, "");
    if (!URL.canParse(href)) continue;
    parts.push(text.slice(end, index), make("a", { href, rel: "nofollow ugc noopener" }, href));
    end = index + href.length;
  }
  return [...parts, text.slice(end)];
}

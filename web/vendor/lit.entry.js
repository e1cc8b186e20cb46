// What the page takes of lit-html.
export { html, nothing, render } from "lit-html";
export { live } from "lit-html/directives/live.js";
export { repeat } from "lit-html/directives/repeat.js";

// The client of a Hubbub stage in browsers and in Node: docs/embed.md. What a method does stands in its types. A
// deployed stage serves it as one file.

import "./calls.js";
import "./chat.js";

export { Hubbub, HubbubError } from "./core.js";

// The words of the pages in the visitor's language.

import { words as english } from "../words-en/pages.js";
import { language } from "./language.js";

export const words = language === "en" ? english : (await import("../words-de/pages.js")).words;

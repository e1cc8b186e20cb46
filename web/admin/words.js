// The words of the admin page in the visitor's language.

import { language } from "../lib/pages.js";

const WORDS = { en: () => import("../words-en/admin.js"), de: () => import("../words-de/admin.js") };

export const { words } = await WORDS[language]();

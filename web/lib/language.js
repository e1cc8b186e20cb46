// The language of the page, and numbers, dates and times in it. The visitor chooses it in the header; before that,
// the browser's languages decide.

import { datesFor } from "./dates.js";
import { formatsFor } from "./formats.js";

export const LANGUAGES = { en: "English", de: "Deutsch" };
export const DAY = 86_400_000; // ms

const KEY = "hubbub.language";

/** The language of the page: a key of LANGUAGES. */
export const language = choose();
document.documentElement.lang = language;

function choose() {
  let stored = null;
  try {
    stored = localStorage.getItem(KEY);
  } catch { /* the browser forbids storage */ }
  return [stored, ...navigator.languages.map((tag) => tag.slice(0, 2))].find((tag) => Object.hasOwn(LANGUAGES, tag)) ?? "en";
}

/** Use another language from now on. Reloads the page. */
export function useLanguage(tag) {
  try {
    localStorage.setItem(KEY, tag);
  } catch { /* then the choice cannot be kept */ }
  location.reload();
}

// English dates are written as in Britain: "17 May 2015", "13:00".
const locale = language === "en" ? "en-GB" : language;
export const dates = datesFor(locale);
export const formats = formatsFor(locale);
export const { count, points, decimal, percent, clock: localClock, localTime } = formats;

/** Return the UTC date of a time: "2015-05-17". */
export const isoDate = (time) => new Date(time).toISOString().slice(0, 10);

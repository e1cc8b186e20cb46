// Dates and times in UTC, in a language.

import { CLOCK, dateFormat } from "./formats.js";

const DATES = {
  day: { day: "numeric", month: "short" },
  fullDay: { day: "numeric", month: "short", year: "numeric" },
  weekday: { weekday: "short", day: "numeric", month: "short", year: "numeric" },
  month: { month: "short" },
  fullMonth: { month: "long", year: "numeric" },
  year: { year: "numeric" },
  hour: CLOCK,
  second: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
};

/** Return the formats of a language. Each takes a time. */
export const datesFor = (locale) => Object.fromEntries(
  Object.entries(DATES).map(([name, parts]) => [name, dateFormat(locale, { timeZone: "UTC", ...parts })]),
);

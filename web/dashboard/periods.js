// The periods of the dashboard. A period is a number of whole days of the site's time zone, and is compared with as many days before it.

import { DAY, isoDate } from "../lib/pages.js";

export const PERIODS = ["today", "7d", "30d", "12m", "all", "range"];

const LENGTHS = { today: 1, "7d": 7, "30d": 30 };
const MOST_HOURS = 3; // days that are shown by the hour
const MOST_DAYS = 92; // days that are shown by the day
export const LONGEST = 366; // days that the API returns at once
export const LISTED = 400; // days of a list of pages, referrers or campaigns

const start = (date) => Date.parse(`${date}T00:00:00Z`);
const days = (from, to) => Math.round((start(to) - start(from)) / DAY) + 1;
const back = (date, number) => isoDate(start(date) - number * DAY);

/**
 * Return the days of a period: `from` and `to` (dates), the `interval` of its plot, and `before`, the same of the
 * period that it is compared with. `first` is the date of the site's first views, if it is known.
 */
export function resolve({ period, from, to }, now, first = "") {
  const today = isoDate(now);
  if (period === "12m") {
    const date = new Date(start(today));
    const month = (offset) => isoDate(Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + offset, 1));
    return compare({ from: month(-11), to: today }, { from: month(-23), to: isoDate(start(month(-11)) - DAY) });
  }
  if (period === "all") return compare({ from: first || back(today, LONGEST - 1), to: today }, null);
  if (period === "range") {
    if (from > to) [from, to] = [to, from];
    return before({ from, to });
  }
  return before({ from: back(today, LENGTHS[period] - 1), to: today });
}

const before = (range) => {
  const length = days(range.from, range.to);
  return compare(range, { from: back(range.from, length), to: back(range.from, 1) });
};

function compare({ from, to }, earlier) {
  const length = days(from, to);
  const interval = length <= MOST_HOURS ? "hour" : length <= MOST_DAYS ? "day" : "month";
  return { from, to, length, interval, before: earlier && { ...earlier, length: days(earlier.from, earlier.to) } };
}

/** Return the days of a period of which the API returns a list: its last ones. `isCut` says whether some are left out. */
export function listed({ from, to }) {
  const first = back(to, LISTED - 1);
  return first > from ? { from: first, to, isCut: true } : { from, to, isCut: false };
}

/** Split days into ranges that the API returns at once. */
export function split({ from, to }) {
  const parts = [];
  for (let at = from; at <= to; at = back(at, -LONGEST)) {
    const end = back(at, 1 - LONGEST);
    parts.push({ from: at, to: end < to ? end : to });
  }
  return parts;
}

/** Add up the days of each month. */
export function byMonth(items) {
  const months = [];
  for (const { time, start, views, visitors } of items) {
    const month = `${time.slice(0, 7)}-01T00:00:00Z`, last = months.at(-1);
    if (last?.time === month) Object.assign(last, { views: last.views + views, visitors: last.visitors + visitors });
    else months.push({ time: month, start, views, visitors });
  }
  return months;
}

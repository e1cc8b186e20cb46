// Labels of views: dates and times in UTC, the ticks of a time axis, and addresses.

import { CLOCK, dateFormat } from "./dom.js";

// -- dates and times, in UTC ---------------------------------------------------------------------------

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

/** Return the formats of dates and times in UTC in a language. Each takes a time. */
export const datesFor = (locale) => Object.fromEntries(
  Object.entries(DATES).map(([name, parts]) => [name, dateFormat(locale, { timeZone: "UTC", ...parts })]),
);

// -- time axes: ticks at full hours, midnights, Mondays and first days of months, all in UTC ----------

const HOUR = 3_600_000, DAY = 24 * HOUR; // ms
const MONDAY = 4 * DAY; // 1970-01-05 was a Monday

const isMonth = (every) => (time) => new Date(time).getUTCDate() === 1 && new Date(time).getUTCMonth() % every === 0;
const isEach = (span, from = 0) => (time) => (time - from) % span === 0;

// What a tick may stand for, from dense to sparse. A tick of an hour is at the edge of its bar, which begins then.
const HOURS = [1, 2, 3, 6, 12].map((hours) => ({ at: isEach(hours * HOUR), text: "hour", below: "day", full: "fullDay" }));
const DAYS = [isEach(DAY), isEach(2 * DAY), isEach(7 * DAY, MONDAY), isEach(14 * DAY, MONDAY)].map((at) => ({ at, text: "day", below: "year", full: "year" }));
const MONTHS = [1, 2, 3, 6, 12].map((months) => ({ at: isMonth(months), text: "month", below: "year", full: "year" }));

/**
 * Return a function for Bars: the ticks of bars that begin at `times` (ms), which are hours, days or months apart. A
 * tick has `at`, its position in bars, `text`, and `below`: the day or the year, where it is named. `dates` formats them.
 */
export function timeTicks(times, interval, dates) {
  const scales = { hour: [...HOURS, ...DAYS, ...MONTHS], day: [...DAYS, ...MONTHS], month: MONTHS }[interval];
  return (width, measure) => {
    for (const scale of scales) {
      const ticks = place(times, interval, scale, dates);
      const widest = Math.max(0, ...ticks.map(({ text }) => measure(text)));
      const closest = Math.min(...ticks.slice(1).map(({ at }, i) => at - ticks[i].at), Infinity);
      if (ticks.length && closest * (width / times.length) >= widest + 12) return ticks;
    }
    return times.length ? place(times.slice(0, 1), interval, scales[0], dates, () => true) : [];
  };
}

function place(times, interval, scale, dates, isTick = scale.at) {
  let named = "";
  return times.flatMap((time, i) => {
    if (!isTick(time)) return [];
    const name = dates[scale.full](time), isFirst = !named;
    const below = name === named ? "" : isFirst || name.slice(-4) !== named.slice(-4) ? name : dates[scale.below](time);
    named = name;
    return [{ at: interval === "hour" ? i - 0.5 : i, text: dates[scale.text](time), below }];
  });
}

// -- addresses of pages, as a person reads them --------------------------------------------------------

const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u; // such a character could hide or turn around what follows it
const JOINERS = /[\u200c\u200d]/g; // Persian and emoji need them

/** Return an address with its percent-encoded letters decoded. Bytes that are no text, and invisible characters, stay encoded. */
export function readable(address) {
  return address.replace(/(%[0-9a-f]{2})+/gi, (encoded) => {
    try {
      const text = decodeURI(encoded);
      return UNSEEN.test(text.replace(JOINERS, "")) ? encoded : text;
    } catch {
      return encoded;
    }
  });
}

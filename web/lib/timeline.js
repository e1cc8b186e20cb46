// The ticks of a time axis: at full hours, midnights, Mondays and first days of months, all in UTC.

import { dates, DAY } from "./language.js";

const HOUR = 3_600_000; // ms
const MONDAY = 4 * DAY; // 1970-01-05 was a Monday

const isMonth = (every) => (time) => new Date(time).getUTCDate() === 1 && new Date(time).getUTCMonth() % every === 0;
const isEach = (span, from = 0) => (time) => (time - from) % span === 0;

// What a tick may stand for, from dense to sparse. A tick of an hour is at the edge of its bar, which begins then.
const HOURS = [1, 2, 3, 6, 12].map((hours) => ({ at: isEach(hours * HOUR), text: dates.hour, below: dates.day, full: dates.fullDay }));
const DAYS = [isEach(DAY), isEach(2 * DAY), isEach(7 * DAY, MONDAY)].map((at) => ({ at, text: dates.day, below: dates.year, full: dates.year }));
const MONTHS = [1, 2, 3, 6, 12].map((months) => ({ at: isMonth(months), text: dates.month, below: dates.year, full: dates.year }));

/**
 * Return a function for Bars: the ticks of bars that begin at `times` (ms), which are hours, days or months apart. A
 * tick has `at`, its position in bars, `text`, and `below`: the day or the year, where it is named.
 */
export function timeTicks(times, interval) {
  const scales = { hour: [...HOURS, ...DAYS, ...MONTHS], day: [...DAYS, ...MONTHS], month: MONTHS }[interval];
  return (width, measure) => {
    for (const scale of scales) {
      const ticks = place(times, interval, scale);
      const widest = Math.max(0, ...ticks.map(({ text }) => measure(text)));
      const closest = Math.min(...ticks.slice(1).map(({ at }, i) => at - ticks[i].at), Infinity);
      if (ticks.length && closest * (width / times.length) >= widest + 12) return ticks;
    }
    return times.length ? place(times.slice(0, 1), interval, scales[0], () => true) : [];
  };
}

function place(times, interval, scale, isTick = scale.at) {
  let named = "";
  return times.flatMap((time, i) => {
    if (!isTick(time)) return [];
    const name = scale.full(time), isFirst = !named;
    const below = name === named ? "" : isFirst || name.slice(-4) !== named.slice(-4) ? name : scale.below(time);
    named = name;
    return [{ at: interval === "hour" ? i - 0.5 : i, text: scale.text(time), below }];
  });
}

// The calls of the dashboard. All parts of a view are loaded for the same days.

import { dates, DAY, isoDate } from "../lib/pages.js";
import { byMonth, listed, LONGEST, resolve, split } from "./periods.js";

const PAGES = 100; // in one call
const SOURCES = 50; // referrers, campaigns and goals
const MOST_YEARS = 15; // that are searched for the first views of a site
const zones = new Map(); // by site: the time zone of its days and hours, as far as it is known

/**
 * Load a view. All times are those of the site's clocks, written as if they were UTC. Returns its `period`, `now` (the current hour), `timezone`, `series`, `pages`, `referrers`, `campaigns`, `goals`,
 * `countries`, `traits`, `listedDays` (the days of the lists, if they are fewer than those of the period), and `before`: the series and the pages of the
 * period before.
 */
export async function load(api, view, first) {
  const current = loadHours(api, view);
  if (!zones.has(view.site)) await current;
  const now = readClock(view), period = resolve(view, now, first);
  const earlier = view.compare && period.before;
  // A part of today is compared with the same part of yesterday.
  const until = period.from === isoDate(now) ? now - DAY : Infinity;
  const days = listed(period), sources = { site: view.site, from: days.from, to: days.to, limit: SOURCES };
  const [hour, totals, referrers, campaigns, goals, countries, traits] = await Promise.all([
    current,
    loadTotals(api, view, period, earlier, until),
    api.getViewsReferrers(sources),
    api.getViewsCampaigns(sources),
    api.getViewsGoals(sources),
    ...["country", view.by].map((by) => api.getViewsVisitors({ site: view.site, by, from: days.from, to: days.to })),
  ]);
  const { series, pages, beforeSeries, beforePages } = totals;
  // Without views there is nothing to compare with. A list of pages is of whole days.
  const isComparable = beforeSeries?.views || beforePages?.items.length;
  const before = isComparable ? { series: beforeSeries, pages: until === Infinity ? beforePages : null } : null;
  return {
    period, series, pages, before,
    referrers: referrers.items, campaigns: campaigns.items, goals: goals.items, countries: countries.items, traits: traits.items, listedDays: days.isCut ? days : null, now: hour.items.at(-1) ?? null, timezone: hour.timezone,
  };
}

/** Return a function that formats an instant as the clocks of a time zone show it: "2026-11-26T13:00:00Z". */
function clockOf(zone) {
  const format = new Intl.DateTimeFormat("sv", { timeZone: zone, dateStyle: "short", timeStyle: "medium" });
  return (instant) => `${format.format(instant).replace(" ", "T")}Z`;
}

/** Return the current time of a site's clocks. */
const readClock = ({ site }) => Date.parse(clockOf(zones.get(site))(Date.now()));

/** Load the hours of a site until now, and note its time zone. */
async function loadHours(api, { site }) {
  const hours = await api.getViewsSite({ site, interval: "hour" });
  zones.set(site, hours.timezone);
  return hours;
}

/** Load the hosts of a source in the days of the lists. */
export async function loadHosts(api, { site }, { period }, source) {
  const { from, to } = listed(period);
  return (await api.getViewsReferrers({ site, from, to, limit: SOURCES, source })).items;
}

/** Load the series and the pages of both periods. */
async function loadTotals(api, view, period, earlier, until) {
  const { site } = view;
  const top = async (range) => {
    const days = view.period === "all" ? {} : listed(range);
    const pages = await api.getViewsTop({ site, limit: PAGES, from: days.from, to: days.to });
    const isWhole = pages.items.length < PAGES && pages.complete !== false && !days.isCut;
    return { ...pages, isWhole, listedDays: days.isCut ? days : null };
  };
  const [series, pages, beforeSeries, beforePages] = await Promise.all([
    loadSeries(api, view, period),
    top(period),
    earlier ? loadSeries(api, view, { ...earlier, interval: period.interval }, until) : null,
    earlier ? top(earlier) : null,
  ]);
  return { series, pages, beforeSeries, beforePages };
}

const sum = (items, name) => items.reduce((total, item) => total + item[name], 0);
const stepOf = ({ interval }) => (interval === "hour" ? "hour" : "day");

/**
 * Load the hours, days or months of a site or of one page, and their totals. `until` cuts the series. The visitors of
 * a part of a day are not known (null).
 */
async function loadSeries(api, view, period, until = Infinity) {
  const isHourly = period.interval === "hour", isCut = until !== Infinity;
  // A visitor counts once on each day, so the visitors of hours do not add up to those of the day.
  const [all, days] = await Promise.all([read(api, view, period, stepOf(period)), isHourly && !isCut ? read(api, view, period, "day") : null]);
  const items = all.filter(({ time }) => Date.parse(time) <= until);
  return {
    views: sum(items, "views"),
    visitors: isCut ? null : sum(days ?? items, "visitors"),
    items: period.interval === "month" ? byMonth(items) : items,
  };
}

/** Read every hour or day of a site or of one page. `start` is the instant at which the `time` begins. */
async function read(api, { site, page }, { from, to }, step) {
  const call = page ? "getViewsSeries" : "getViewsSite", subject = page ? { url: page } : { site };
  const today = isoDate(readClock({ site }));
  const parts = await Promise.all(split({ from, to }).map((part) => (
    // Without `to` the series ends now, so it has no hours in the future.
    api[call]({ ...subject, interval: step, from: part.from, to: part.to < today ? part.to : undefined })
  )));
  return parts.flatMap(({ items, timezone }) => {
    const clock = clockOf(timezone);
    return items.map(({ time, views, visitors }) => ({ time: clock(new Date(time)), start: time, views, visitors }));
  });
}

/**
 * Return the first and last dates on which a site or a page has views, or null. Searches a year at a time, from now on
 * backwards, until a year after the first found one has none.
 */
export async function findViews(api, { site, page }) {
  if (!zones.has(site)) await loadHours(api, { site });
  let first = "", last = "", to = readClock({ site });
  for (let looks = 0; looks < MOST_YEARS; looks += 1) {
    const from = to - (LONGEST - 1) * DAY;
    const seen = (await read(api, { site, page }, { from: isoDate(from), to: isoDate(to) }, "day")).filter(({ views }) => views);
    if (seen.length) [first, last] = [seen[0].time.slice(0, 10), last || seen.at(-1).time.slice(0, 10)];
    else if (first) break;
    to = from - DAY;
  }
  return first ? { first, last } : null;
}

/** Name the days of a period: "17 May 2015" or "17 May 2015 – 20 May 2015". */
export function nameDays({ from, to }) {
  return from === to ? dates.fullDay(from) : `${dates.fullDay(from)} – ${dates.fullDay(to)}`;
}

// The language of the page, and numbers, dates and times in it. The visitor chooses it in the header; before that,
// the browser's languages decide.

export const LANGUAGES = { en: "English", de: "Deutsch" };

const KEY = "hubbub.language";
const DAY = 86_400_000; // ms
const SPANS = [["day", 86400], ["hour", 3600], ["minute", 60]];

/** The language of the page: a key of LANGUAGES. */
export const language = choose();

function choose() {
  let stored = null;
  try {
    stored = localStorage.getItem(KEY);
  } catch { /* the browser forbids storage */ }
  return [stored, ...navigator.languages.map((tag) => tag.slice(0, 2))].find((tag) => tag in LANGUAGES) ?? "en";
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
const utc = (parts) => new Intl.DateTimeFormat(locale, { timeZone: "UTC", ...parts });

export const count = new Intl.NumberFormat(locale);
const exact = new Intl.NumberFormat(locale, { maximumFractionDigits: 9 });
const compact = new Intl.NumberFormat(locale, { notation: "compact", maximumFractionDigits: 1 });
const percentage = new Intl.NumberFormat(locale, { style: "percent", maximumFractionDigits: 0 });
const relative = new Intl.RelativeTimeFormat(locale, { numeric: "auto" });
const fixed = (digits) => new Intl.NumberFormat(locale, { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** Format a count with its noun: "1 view", "1,539 views". */
export const counted = (number, one, many) => `${count.format(number)} ${number === 1 ? one : many}`;

/** Format a score with all its decimals. */
export const points = (number) => exact.format(number);

/** Format a number with a fixed number of decimals. */
export const decimal = (number, digits) => fixed(digits).format(number);

/** Format a share: "12 %". */
export const percent = (share) => percentage.format(share);

/** Format a number for an axis: "950", "1.2K". */
export const short = (number) => (Math.abs(number) < 10_000 ? exact.format(number) : compact.format(number));

/** Dates and times in UTC, each a function of a time. */
export const dates = Object.fromEntries(
  Object.entries({
    day: { day: "numeric", month: "short" },
    fullDay: { day: "numeric", month: "short", year: "numeric" },
    weekday: { weekday: "short", day: "numeric", month: "short", year: "numeric" },
    month: { month: "short" },
    fullMonth: { month: "long", year: "numeric" },
    year: { year: "numeric" },
    hour: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
    second: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
  }).map(([name, parts]) => {
    const format = utc(parts);
    return [name, (time) => format.format(new Date(time))];
  }),
);

/** Format a time of today in the visitor's own time zone: "13:05". */
const clock = new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
export const localClock = (time) => clock.format(new Date(time));

/** Format a time in the visitor's own time zone, with the zone's name. */
const local = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "long" });
export const localTime = (time) => local.format(new Date(time));

/** Format how long ago a time was: "3 minutes ago", "yesterday". Returns null within the last minute. */
export function ago(time) {
  const seconds = (Date.now() - Date.parse(time)) / 1000;
  const [unit, size] = SPANS.find(([, span]) => seconds >= span) ?? [];
  return unit ? relative.format(-Math.floor(seconds / size), unit) : null;
}

/** Return the UTC date of a time: "2015-05-17". */
export const isoDate = (time) => new Date(time).toISOString().slice(0, 10);
export { DAY };

// Numbers, dates and times in a language.

const DATES = {
  day: { day: "numeric", month: "short" },
  fullDay: { day: "numeric", month: "short", year: "numeric" },
  weekday: { weekday: "short", day: "numeric", month: "short", year: "numeric" },
  month: { month: "short" },
  fullMonth: { month: "long", year: "numeric" },
  year: { year: "numeric" },
  hour: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
  second: { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" },
};

/** Return the formats of a language. Each takes a number or a time. */
export function formatsFor(locale) {
  const number = (options) => {
    const format = new Intl.NumberFormat(locale, options);
    return (value) => format.format(value);
  };
  const date = (options) => {
    let format; // most are never used
    return (time) => (format ??= new Intl.DateTimeFormat(locale, options)).format(new Date(time));
  };
  const points = number({ maximumFractionDigits: 9 }), compact = number({ notation: "compact", maximumFractionDigits: 1 });
  return {
    count: number(),
    points, // a score with all its decimals
    decimal: (value, digits) => number({ minimumFractionDigits: digits, maximumFractionDigits: digits })(value),
    percent: number({ style: "percent", maximumFractionDigits: 0 }),
    /** A number for an axis: "950", "1.2K". */
    short: (value) => (Math.abs(value) < 10_000 ? points(value) : compact(value)),
    /** Dates and times in UTC. */
    dates: Object.fromEntries(Object.entries(DATES).map(([name, parts]) => [name, date({ timeZone: "UTC", ...parts })])),
    // In the visitor's own time zone.
    clock: date(DATES.hour),
    localDate: date({ dateStyle: "medium" }),
    localTime: date({ dateStyle: "medium", timeStyle: "long" }),
    opening: date({ dateStyle: "long", timeStyle: "short" }),
  };
}

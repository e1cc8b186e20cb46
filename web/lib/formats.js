// Numbers and local times in a language.

export const CLOCK = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };

/** Return a function that formats times. */
export function dateFormat(locale, options) {
  let format; // most are never used
  return (time) => (format ??= new Intl.DateTimeFormat(locale, options)).format(new Date(time));
}

/** Return the formats of a language. Each takes a number or a time. */
export function formatsFor(locale) {
  const number = (options) => {
    const format = new Intl.NumberFormat(locale, options);
    return (value) => format.format(value);
  };
  const points = number({ maximumFractionDigits: 9 }), compact = number({ notation: "compact", maximumFractionDigits: 1 });
  return {
    count: number(),
    points, // a score with all its decimals
    decimal: (value, digits) => number({ minimumFractionDigits: digits, maximumFractionDigits: digits })(value),
    percent: number({ style: "percent", maximumFractionDigits: 0 }),
    /** A number for an axis: "950", "1.2K". */
    short: (value) => (Math.abs(value) < 10_000 ? points(value) : compact(value)),
    // In the visitor's own time zone.
    clock: dateFormat(locale, CLOCK),
    localDate: dateFormat(locale, { dateStyle: "medium" }),
    localTime: dateFormat(locale, { dateStyle: "medium", timeStyle: "long" }),
    opening: dateFormat(locale, { dateStyle: "long", timeStyle: "short" }),
  };
}

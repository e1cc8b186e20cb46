// What all pages and widgets show: elements that are created without HTML strings, and numbers and local times.

/** Call a method of the document. An element such as <img name=createElement> hides document.createElement. */
export const callDocument = (name, ...given) => Document.prototype[name].apply(document, given);

/** Create an element. A string among its children becomes text and never HTML. */
export function make(name, properties = {}, ...children) {
  const element = callDocument("createElement", name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key in element && key !== "part") element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

/** Create a rating. Screen readers read its label. */
export function stars(rating, label) {
  return make("span", { className: "stars", role: "img", ariaLabel: label }, "★".repeat(rating) + "☆".repeat(5 - rating));
}

/** Call a function when a form is submitted. A sandbox without `allow-forms` has no submit event, but still the click. */
export function onSubmit(form, act) {
  form.addEventListener("click", (event) => {
    if (event.target.closest("button")?.type !== "submit") return;
    event.preventDefault();
    if (form.reportValidity()) act(event);
  });
}

/** Change a text only if it differs, so that a live region does not read it again. */
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// -- numbers and local times in a language --------------------------------------------------------------

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

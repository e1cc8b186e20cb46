// Files for a spreadsheet.

const FORMULA = "=+-@\uff1d\uff0b\uff0d\uff20";
const BLANK = String.raw`[\u0000-\u0020\u007f-\u00a0\u2000-\u200f\u2028-\u202f\u205f-\u206f\u3000\ufeff"']`;
const BLANK_RUN = new RegExp(`(?:;|^|(?<!${BLANK})(?=${BLANK}))${BLANK}*`, "g");

/** Offer rows as a CSV file. */
export function download(name, header, rows) {
  const url = URL.createObjectURL(new Blob([encode(header, rows)], { type: "text/csv;charset=utf-8" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Encode rows as CSV (RFC 4180). Every text is quoted, because a spreadsheet of another language may split at `;`. */
export function encode(header, rows) {
  return [header, ...rows].map((row) => `${row.map(field).join(",")}\r\n`).join("");
}

const field = (value) => (typeof value === "number" ? String(value) : `"${guard(value ?? "").replaceAll('"', '""')}"`);

// A spreadsheet runs a text that begins like a formula, and an address or a referrer is a stranger's text. This is
// `guard_cell` of chalicelib/api/codec.py.
function guard(text) {
  return text.replace(BLANK_RUN, (run, at) => {
    const isFormula = at + run.length < text.length && FORMULA.includes(text[at + run.length]);
    const isFirst = at === 0 && !run.startsWith(";") && (isFormula || /[\t\r\n]/.test(run));
    return (isFirst ? "'" : "") + (isFormula ? run.replace(/[;\t\r\n]/g, "$&'") : run);
  });
}

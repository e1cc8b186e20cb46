// Files for a spreadsheet.

/** Offer rows as a CSV file (RFC 4180). */
export function download(name, header, rows) {
  const lines = [header, ...rows].map((row) => row.map(field).join(","));
  const url = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv;charset=utf-8" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// A spreadsheet runs a text that begins like a formula, and an address or a referrer is a stranger's text.
function field(value) {
  const text = String(value ?? "");
  const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

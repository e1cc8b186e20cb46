// Numbers as words.

export const count = new Intl.NumberFormat("en");

/** Say how many: "1 view", "1,539 views". */
export function plural(number, noun) {
  return `${count.format(number)} ${noun}${number === 1 ? "" : "s"}`;
}

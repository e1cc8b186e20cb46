// Lists that the browser remembers for its visitors, because no list of the API has them.

/** Return the two functions that read and write a list of at most `most` values. */
export function remembered(key, most) {
  let values = []; // where the browser forbids storage, they last until the page is closed
  const read = () => {
    try {
      values = JSON.parse(localStorage.getItem(key)) ?? values;
    } catch { /* there is no storage, or something else in it */ }
    return values;
  };
  const write = (changed) => {
    values = changed.slice(-most);
    try {
      localStorage.setItem(key, JSON.stringify(values));
    } catch { /* the browser forbids storage */ }
  };
  return [read, write];
}

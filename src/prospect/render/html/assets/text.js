// Figures and names → text, as the text report has them.

const LONGEST_BRIEF = 80; // characters

/** Untrusted names, without characters that turn or hide the text around them. */
function shown(name) {
  return name.replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]/gu, (char) => {
    const code = char.codePointAt(0);
    // An undecodable byte 0xNN is U+DCNN in JSON.
    if (code >= 0xdc80 && code <= 0xdcff) return `\\x${(code - 0xdc00).toString(16)}`;
    if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
    return `\\u{${code.toString(16)}}`;
  });
}

/** A name for a sentence, without its least telling parts. */
const brief = (name) => shortName(shown(name), LONGEST_BRIEF);

const fileName = (path) => path.slice(path.lastIndexOf("/") + 1) || path;

/** A number with so many decimals; halves are rounded to the even digit. */
function fixed(value, digits) {
  // Only a whole number of so many halvings is halfway between two such numbers.
  const halves = value * 2 ** (digits + 1);
  const doubled = value * 2 * 10 ** digits;
  if (!Number.isInteger(halves) || !Number.isInteger(doubled) || doubled % 2 === 0) return value.toFixed(digits);
  const even = 2 * Math.round(Math.abs(doubled) / 4);
  return (value < 0 ? "-" : "") + (even / 10 ** digits).toFixed(digits);
}

/** The number of decimals that an error bar supports: two of its digits up to 3.5, else one. */
function barDigits(half) {
  if (!(half > 0) || !isFinite(half)) return 6;
  const exponent = Math.floor(Math.log10(half));
  const leading = half / 10 ** exponent;
  return Math.min(Math.max(leading < 3.545 ? 1 - exponent : -exponent, 0), 6);
}

/** The number of decimals of a second that show one sample. */
function sampleDigits(samples, seconds) {
  if (!(samples > 0) || !(seconds > 0)) return 2;
  return Math.min(Math.max(Math.ceil(-Math.log10(seconds / samples) - 0.02), 2), 6);
}

/** A time with its error bar: "1.23 ± 0.04", in seconds. */
function timeText(seconds, half, digits) {
  if (half === null || half === undefined || !(seconds > 0)) return fixed(seconds, digits);
  const fewer = Math.min(barDigits(half), digits);
  return `${fixed(seconds, fewer)} ± ${fixed(half, fewer)}`;
}

/** A share with the digits that its number of samples supports. */
function shareText(share, samples) {
  return `${fixed(share * 100, (samples >= 1e3) + (samples >= 1e6))} %`;
}

const countText = (number) => number.toLocaleString("en");

/**
 * Make an element. Text is set as text, never parsed.
 * @param {string} tag with its class after a point
 * @param {object} properties of the element; those named data-, aria- or role are attributes
 */
function make(tag, properties = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const element = document.createElement(name);
  element.className = classes.join(" ");
  for (const [key, value] of Object.entries(properties)) {
    if (/^(data-|aria-|role$|scope$)/.test(key)) element.setAttribute(key, value);
    else element[key] = value;
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

const byId = (id) => document.getElementById(id);

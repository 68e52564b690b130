// Makes pictures of pages small: a PNG with a palette. The octets of the picture are those of Playwright: 8 bits a channel,
// not interlaced.
import { crc32, deflateSync, inflateSync } from "node:zlib";

const SIGNATURE = Buffer.from("89504e470d0a1a0a", "hex");
const MOST = 64;

// Returns the same picture with few colours, and for each other one the nearest of them.
export function palette(png) {
  const { width, height, channels, rows } = decoded(png);
  const counts = new Map();
  for (let at = 0; at < rows.length; at += channels) {
    const colour = (rows[at] << 16) | (rows[at + 1] << 8) | rows[at + 2];
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  const colours = chosen(counts);
  const places = new Map(colours.map((colour, place) => [colour, place]));
  for (const colour of counts.keys()) if (!places.has(colour)) places.set(colour, nearest(colours, colour));
  const out = Buffer.alloc((width + 1) * height);
  for (let y = 0, at = 0, to = 0; y < height; y += 1) {
    out[to++] = 0;
    for (let x = 0; x < width; x += 1, at += channels) {
      out[to++] = places.get((rows[at] << 16) | (rows[at + 1] << 8) | rows[at + 2]);
    }
  }
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([8, 3, 0, 0, 0], 8);
  const table = Buffer.from(colours.flatMap((colour) => [colour >> 16, (colour >> 8) & 255, colour & 255]));
  const data = deflateSync(out, { level: 9, memLevel: 9 });
  return Buffer.concat([
    SIGNATURE,
    chunk("IHDR", head),
    chunk("PLTE", table),
    chunk("IDAT", data),
    chunk("IEND", Buffer.alloc(0)),
  ]);
}

// Chooses colours one by one: each time the one that the chosen ones serve worst, by its distance to them and its count. So a
// rare colour is kept if no other is like it.
function chosen(counts) {
  const colours = [];
  const left = new Map([...counts.keys()].map((colour) => [colour, Infinity]));
  while (colours.length < MOST && left.size > 0) {
    let [next, worst] = [0, -1];
    for (const [colour, least] of left) {
      const loss = Math.min(least, 1e9) * counts.get(colour);
      if (loss > worst) [next, worst] = [colour, loss];
    }
    colours.push(next);
    left.delete(next);
    for (const [colour, least] of left) left.set(colour, Math.min(least, distance(colour, next)));
  }
  return colours;
}

function nearest(colours, colour) {
  let [best, least] = [0, Infinity];
  for (const [place, other] of colours.entries()) {
    const far = distance(colour, other);
    if (far < least) [best, least] = [place, far];
  }
  return best;
}

// Returns how far two colours are from each other, for an eye.
function distance(colour, other) {
  const red = (colour >> 16) - (other >> 16);
  const green = ((colour >> 8) & 255) - ((other >> 8) & 255);
  const blue = (colour & 255) - (other & 255);
  return 2 * red * red + 4 * green * green + 3 * blue * blue;
}

function chunk(kind, data) {
  const out = Buffer.alloc(12 + data.length);
  out.writeUInt32BE(data.length, 0);
  out.write(kind, 4, "latin1");
  data.copy(out, 8);
  out.writeUInt32BE(crc32(out.subarray(4, 8 + data.length)), 8 + data.length);
  return out;
}

// Undoes the filters of the rows (PNG, section 9).
function decoded(png) {
  const parts = [];
  for (let at = 8; at < png.length; ) {
    const length = png.readUInt32BE(at);
    if (png.toString("latin1", at + 4, at + 8) === "IDAT") parts.push(png.subarray(at + 8, at + 8 + length));
    at += 12 + length;
  }
  const [width, height, channels] = [png.readUInt32BE(16), png.readUInt32BE(20), png[25] === 6 ? 4 : 3];
  const data = inflateSync(Buffer.concat(parts));
  const stride = width * channels;
  const rows = Buffer.alloc(stride * height);
  for (let y = 0; y < height; y += 1) {
    const filter = data[y * (stride + 1)];
    for (let x = 0; x < stride; x += 1) {
      const to = y * stride + x;
      const left = x >= channels ? rows[to - channels] : 0;
      const up = y > 0 ? rows[to - stride] : 0;
      const corner = x >= channels && y > 0 ? rows[to - stride - channels] : 0;
      rows[to] = data[y * (stride + 1) + 1 + x] + [0, left, up, (left + up) >> 1, paeth(left, up, corner)][filter];
    }
  }
  return { width, height, channels, rows };
}

function paeth(left, up, corner) {
  const guess = left + up - corner;
  const [a, b, c] = [Math.abs(guess - left), Math.abs(guess - up), Math.abs(guess - corner)];
  if (a <= b && a <= c) return left;
  return b <= c ? up : corner;
}

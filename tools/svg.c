#include "tools/svg.h"

#include <string.h>

/* The colours of series are those of Okabe and Ito (2008), which people with
 * any colour vision tell apart, darker on light and lighter on dark. Programs
 * that know no media queries show the light ones. */
static const char style[] =
    "<style>\n"
    "text { font: 12px sans-serif; fill: #1a1a1a }\n"
    ".title { font-size: 15px; font-weight: bold }\n"
    ".small, .mark { font: 11px monospace }\n"
    ".mark { stroke: #ffffff; stroke-width: 4px; paint-order: stroke;\n"
    "  stroke-linejoin: round }\n"
    ".page { fill: #ffffff } .band { fill: #f3f3f3 }\n"
    ".box { fill: #ffffff; stroke: #666666 }\n"
    ".axis { stroke: #666666 } .grid { stroke: #e2e2e2 }\n"
    ".life { stroke: #b8b8b8; stroke-dasharray: 2 3 }\n"
    ".dashed { stroke-dasharray: 5 3 }\n"
    ".s0, .s1, .s2, .s3, .s4, .s5, .s6, .s7 { fill: none; stroke-width: 1.6px "
    "}\n"
    ".s0 { stroke: #0067a5 } .f0 { fill: #0067a5 }\n"
    ".s1 { stroke: #c04f00 } .f1 { fill: #c04f00 }\n"
    ".s2 { stroke: #007a5a } .f2 { fill: #007a5a }\n"
    ".s3 { stroke: #b0508a } .f3 { fill: #b0508a }\n"
    ".s4 { stroke: #9a6a00 } .f4 { fill: #9a6a00 }\n"
    ".s5 { stroke: #3d8fc6 } .f5 { fill: #3d8fc6 }\n"
    ".s6 { stroke: #555555 } .f6 { fill: #555555 }\n"
    ".s7 { stroke: #7a7300 } .f7 { fill: #7a7300 }\n"
    "@media (prefers-color-scheme: dark) {\n"
    "text { fill: #e6e6e6 } .mark { stroke: #16181c }\n"
    ".page { fill: #16181c } .band { fill: #1f2228 }\n"
    ".box { fill: #16181c; stroke: #9a9a9a }\n"
    ".axis { stroke: #9a9a9a } .grid { stroke: #30343c }\n"
    ".life { stroke: #565b66 }\n"
    ".s0 { stroke: #56b4e9 } .f0 { fill: #56b4e9 }\n"
    ".s1 { stroke: #ff8c42 } .f1 { fill: #ff8c42 }\n"
    ".s2 { stroke: #2fc79a } .f2 { fill: #2fc79a }\n"
    ".s3 { stroke: #e08fc0 } .f3 { fill: #e08fc0 }\n"
    ".s4 { stroke: #e6b03a } .f4 { fill: #e6b03a }\n"
    ".s5 { stroke: #9fd0f0 } .f5 { fill: #9fd0f0 }\n"
    ".s6 { stroke: #bbbbbb } .f6 { fill: #bbbbbb }\n"
    ".s7 { stroke: #f0e442 } .f7 { fill: #f0e442 }\n"
    "}\n"
    "</style>\n";

/* Writes text, in which the characters of markup are replaced. */
static void svg_escape(FILE *to, const char *text) {
  for (; *text != 0; text++) {
    unsigned char c = (unsigned char)*text;
    if (c == '&')
      fputs("&amp;", to);
    else if (c == '<')
      fputs("&lt;", to);
    else if (c == '>')
      fputs("&gt;", to);
    else
      fputc(c < 0x20 ? ' ' : c, to);
  }
}

void gli_svg_open(FILE *to, double width, double height, const char *title) {
  fprintf(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
          "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" role=\"img\">\n<title>",
          width, height, width, height);
  svg_escape(to, title);
  fprintf(to, "</title>\n%s", style);
  gli_svg_rect(to, "page", 0, 0, width, height);
}

void gli_svg_close(FILE *to) {
  fputs("</svg>\n", to);
}

void gli_svg_group(FILE *to, const char *tip) {
  fputs("<g><title>", to);
  svg_escape(to, tip);
  fputs("</title>\n", to);
}

void gli_svg_end_group(FILE *to) {
  fputs("</g>\n", to);
}

void gli_svg_text(FILE *to, const char *class, double x, double y,
                  gli_svg_anchor anchor, const char *text) {
  static const char *const anchors[] = {"start", "middle", "end"};
  fprintf(to, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">",
          class, x, y, anchors[anchor]);
  svg_escape(to, text);
  fputs("</text>\n", to);
}

void gli_svg_line(FILE *to, const char *class, double x1, double y1, double x2,
                  double y2) {
  fprintf(to,
          "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
          "y2=\"%.1f\"/>\n",
          class, x1, y1, x2, y2);
}

void gli_svg_arrow(FILE *to, unsigned series, bool dashed, double x1, double x2,
                   double y) {
  double back = x2 > x1 ? -7 : 7;
  unsigned colour = series % GLI_SVG_SERIES;
  fprintf(to, "<path class=\"s%u%s\" d=\"M%.1f %.1fH%.1f\"/>", colour,
          dashed ? " dashed" : "", x1, y, x2 + back);
  fprintf(to, "<circle class=\"f%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>",
          colour, x1, y);
  fprintf(to, "<path class=\"f%u\" d=\"M%.1f %.1fl%.1f -4v8z\"/>\n", colour, x2,
          y, back);
}

void gli_svg_rect(FILE *to, const char *class, double x, double y, double width,
                  double height) {
  bool round = strcmp(class, "box") == 0;
  fprintf(to,
          "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
          "height=\"%.1f\"%s/>\n",
          class, x, y, width, height, round ? " rx=\"3\"" : "");
}

void gli_svg_path(FILE *to, const char *class, const gli_svg_point *points,
                  size_t n) {
  fprintf(to, "<path class=\"%s\" d=\"", class);
  for (size_t i = 0; i < n; i++)
    fprintf(to, "%c%.1f %.1f", i == 0 ? 'M' : 'L', points[i].x, points[i].y);
  fputs("\"/>\n", to);
}

void gli_svg_mark(FILE *to, unsigned series, double x, double y) {
  static const char *const shapes[] = {
      "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0 -7 0z", /* circle */
      "m-3.2 -3.2h6.4v6.4h-6.4z",                      /* square */
      "m0 -4.2l4.2 7.4h-8.4z",                         /* triangle */
      "m0 -4.6l4.6 4.6l-4.6 4.6l-4.6 -4.6z",           /* diamond */
      "m0 4.2l4.2 -7.4h-8.4z",                         /* triangle, down */
  };
  enum { SHAPES = sizeof shapes / sizeof *shapes };
  fprintf(to, "<path class=\"f%u\" d=\"M%.1f %.1f%s\"/>\n",
          series % GLI_SVG_SERIES, x, y, shapes[series % SHAPES]);
}

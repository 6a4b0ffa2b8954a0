"""The style sheet of a report: one column on a phone, two charts side by side on a desk, plain on paper."""

STYLE = """
:root{color-scheme:light}
*{box-sizing:border-box}
body{margin:0;font:16px/1.5 system-ui,"Segoe UI",Helvetica,Arial,sans-serif;color:#1b1b1b;background:#fff;overflow-wrap:break-word}
main{max-width:68rem;margin:0 auto;padding:1rem}
h1{font-size:1.5rem;line-height:1.25;margin:.5rem 0 1rem}
h2{font-size:1.3rem;line-height:1.3;margin:0 0 .5rem}
h3{font-size:1.05rem;margin:1.5rem 0 .4rem}
p{margin:.4rem 0}
article{border-top:3px solid #1b1b1b;padding:1rem 0 1.5rem}
.badge{display:inline-block;padding:.1rem .7rem;border-radius:.3rem;color:#fff;font-weight:700;letter-spacing:.02em;white-space:nowrap}
.holds{background:#17603a}.refuted{background:#9b1c1c}.undecided{background:#6b4a00}
.verdict{border-left:6px solid #6b4a00;padding:.4rem 0 .4rem .9rem;margin:.6rem 0 1rem}
.verdict.is-holds{border-color:#17603a}.verdict.is-refuted{border-color:#9b1c1c}
.reason{font-size:1.08rem}
dl{display:grid;grid-template-columns:minmax(7rem,12rem) 1fr;gap:.15rem 1rem;margin:.4rem 0}
dt{font-weight:600}dd{margin:0}
table{border-collapse:collapse;width:100%;font-size:.94rem}
caption{text-align:left;font-size:.9rem;color:#444;padding-bottom:.3rem}
th,td{text-align:left;vertical-align:top;padding:.35rem .6rem .35rem 0;border-bottom:1px solid #c8c8c8}
tbody th{width:24%}
tbody th,td:last-child,dd,h1,h2,p,li,figcaption{overflow-wrap:anywhere}
thead th{border-bottom:2px solid #1b1b1b}
tr.own td,tr.own th{font-weight:700}
.state{white-space:nowrap;font-weight:700}
.state.found{color:#9b1c1c}.state.checked{color:#17603a}.state.open{color:#6b4a00}
.charts{display:grid;grid-template-columns:1fr;gap:1.5rem}
figure{margin:0;break-inside:avoid}
figcaption{font-size:.9rem;color:#333}
svg{max-width:100%}
figure>svg{width:100%;height:auto;display:block;font:11px system-ui,Helvetica,Arial,sans-serif}
svg text{fill:#1b1b1b}
.grid{stroke:#dcdcdc;fill:none}.axis{stroke:#1b1b1b;fill:none}
path.claim{fill:#1b1b1b;stroke:#fff}text.claim{font-weight:700;paint-order:stroke;stroke:#fff;stroke-width:3px}
.legend{list-style:none;margin:.3rem 0;padding:0;font-size:.88rem;display:flex;flex-wrap:wrap;gap:.1rem 1.1rem}
.legend svg{margin-right:.4rem;vertical-align:middle}
ul,ol{padding-left:1.2rem;margin:.3rem 0}
footer{border-top:1px solid #777;font-size:.85rem;color:#333;padding-top:.6rem}
a{color:#004c8c}
@media (min-width:50rem){.charts{grid-template-columns:1fr 1fr}}
@media (min-width:40.01rem){
table.readings td:nth-child(3),table.readings thead th{white-space:nowrap}
table.readings td:nth-child(2){min-width:13rem}
table.readings tbody th{overflow-wrap:normal}
}
@media (max-width:40rem){
dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.4rem}
table.wide,table.wide caption,table.wide tbody,table.wide tr,table.wide td,table.wide th{display:block;width:100%;padding-right:0}
table.wide thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
table.wide tr{border-bottom:1px solid #777;padding:.4rem 0}
table.wide td,table.wide th{border:0;padding:.05rem 0}
}
@page{margin:16mm}
@media print{
html{font-size:9.5pt}body{font-size:1rem}main{max-width:none;padding:0}
figure{max-height:11cm}.charts{break-inside:auto}
article{break-before:page}article:first-of-type{break-before:auto}
tr,.verdict,h2,h3{break-inside:avoid}h2,h3{break-after:avoid}
.charts{grid-template-columns:1fr 1fr}
.badge{border:1px solid #000;print-color-adjust:exact;-webkit-print-color-adjust:exact}
thead{display:table-header-group;break-after:avoid}tbody tr:first-child{break-before:avoid}caption{break-after:avoid}
a{color:inherit;text-decoration:none}
}
""".strip()
